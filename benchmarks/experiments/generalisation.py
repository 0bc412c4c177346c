"""`python -m benchmarks generalisation`: one model for every sensor and voxel size against models for one of them, at home and abroad."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.data.held_out import HeldOut, held_out_pairs
from benchmarks.experiments.geometry import likelihoods, normal_angles
from benchmarks.metrics.surface import AngleErrors
from benchmarks.report import Report, publish
from poli.errors import InputError
from poli.estimation import estimate
from poli.learn.config import TrainConfig
from poli.learn.trainer import Listener, train

Domain = tuple[str, float]  # sensor, voxel in metres


@dataclass(frozen=True)
class GeneralisationBench:
    config: (
        TrainConfig  # of the one model; specialists have its architecture, loss and schedule, on their own sensor and voxel size
    )
    model: str = "lidar"
    specialists: tuple[Domain, ...] = (("vlp16", 0.5), ("os2_128", 1.0))
    domains: tuple[Domain, ...] = (
        ("vlp16", 0.5),
        ("os2_128", 1.0),
        ("vlp16", 0.2),
        ("hdl32e", 0.5),
        ("hdl64e", 1.0),
        ("os2_128", 2.0),
    )
    worlds: int = 30
    steps: int = 2500
    spots: int = 2

    def __post_init__(self) -> None:
        if self.config.scans is None:
            raise InputError("the configuration is not one of scans; give that of the LiDAR model, configs/lidar.toml")


def run(bench: GeneralisationBench, runs: Path, out: Path, json_path: Path | None, command: str) -> None:
    models: dict[str, str] = {"one model": bench.model}
    for domain in bench.specialists:
        Console().print(f"training for {_name(domain)} only: {bench.steps} steps")
        models[f"only {_name(domain)}"] = str(
            train(_specialist(bench, domain), runs / _name(domain).replace(", ", "_"), Listener())
        )
    scans = list(held_out_pairs(list(dict.fromkeys(sensor for sensor, _ in bench.domains)), bench.spots))
    figures: dict[str, Any] = {}
    for domain in bench.domains:
        here = [s for s in scans if s.sensor == domain[0]]
        figures[_name(domain)] = {name: _judge(here, domain[1], model) for name, model in models.items()}
    homes = {f"only {_name(domain)}": _name(domain) for domain in bench.specialists}
    rows = []
    for domain_name, by_model in figures.items():
        cells = []
        for name, r in by_model.items():
            home = " (home)" if homes.get(name) == domain_name else ""
            cells.append(f"{r['rmse']:.1f} / {r['median']:.1f} / {r['nll']:.2f}{home}")
        rows.append([domain_name, *cells])
    notes = [
        "normal RMSE / median in degrees / NLL in nats a match (one in ten an outlier), in six held-out places",
        f"specialists: trained from nothing for {bench.steps} steps on {bench.worlds} worlds, one sensor and one voxel size, "
        "with the architecture and loss of the one model",
    ]
    title = "One model against models for one configuration"
    publish(Report(title, command, ["sensor, voxel", *models], rows, notes, {"domains": figures}), "generalisation", out, json_path)


def _specialist(bench: GeneralisationBench, domain: Domain) -> TrainConfig:
    assert bench.config.scans is not None
    sensor, voxel = domain
    scans = replace(
        bench.config.scans,
        sensors=(sensor,),
        sensors_each=1,
        voxels=(voxel,),
        raw_share=0.0,
        worlds=bench.worlds,
        validation_worlds=4,
    )
    schedule = replace(bench.config.schedule, steps=bench.steps, validate_every=bench.steps)
    return replace(bench.config, name=_name(domain), initial="", scans=scans, schedule=schedule)


def _judge(scans: list[HeldOut], voxel: float, model: str) -> dict[str, float]:
    clouds = [(s.cloud(voxel), s.normals(voxel)) for s in scans]
    fields = [estimate(cloud, model, warn=False) for cloud, _ in clouds]
    errors = AngleErrors.of(normal_angles(clouds, fields)[0])
    losses, squares = likelihoods([s.matches(voxel) for s in scans], fields)
    return {"rmse": errors.rmse, "median": errors.median, "nll": float(losses.mean()), "squared_median": float(np.median(squares))}


def _name(domain: Domain) -> str:
    return f"{domain[0]}, {domain[1]:g} m"
