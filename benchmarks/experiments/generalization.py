"""The general LiDAR model against models trained for a single sensor and voxel size, in and out of their domain.

Example: python -m benchmarks generalization configs/lidar.toml
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.data.held_out import HeldOut, held_out_pairs
from benchmarks.experiments.geometry import likelihoods, normal_angles, pca_angles
from benchmarks.metrics.likelihood import NEIGHBORS
from benchmarks.metrics.surface import AngleErrors, BestErrors
from benchmarks.options import MODEL, option
from benchmarks.report import Report, Table, column_list
from benchmarks.rivals.pca import POWERS, setting_name
from poli.errors import InputError
from poli.estimation import estimate
from poli.learn.config import TrainConfig, read_config
from poli.learn.trainer import Listener, train

Domain = tuple[str, float]  # sensor, voxel in meters


SPECIALISTS: tuple[Domain, ...] = (("vlp16", 0.5), ("os2_128", 1.0))
DOMAINS: tuple[Domain, ...] = (*SPECIALISTS, ("vlp16", 0.2), ("hdl32e", 0.5), ("hdl64e", 1.0), ("os2_128", 2.0))
_SPOTS = 2


@dataclass(frozen=True)
class Options:
    config: Path = option(
        Path("configs/lidar.toml"),
        "configuration of the general model; specialists share its architecture, loss and schedule",
        argument=True,
    )
    model: str = option("lidar", f"the general model: {MODEL}")
    steps: int = option(2500, "training steps per specialist", least=1)
    worlds: int = option(30, "training worlds per specialist", least=1)
    runs: Path = option(Path("runs/generalization"), "folder for the training runs; they resume")


_TABLE = Table(column_list(**{"sensor, voxel": "{domain}"}), across="model", cell="{rmse:.1f} / {median:.1f} / {nll:.2f}{home}")


def run(options: Options) -> Iterator[Report]:
    config = read_config(options.config)
    if config.scans is None:
        raise InputError(f"{options.config}: not a configuration for scans; give that of the LiDAR model, configs/lidar.toml")
    models = {"one model": options.model}
    for domain in SPECIALISTS:
        name = _name(domain)
        Console().print(f"training for {name} only: {options.steps} steps")
        folder = options.runs / name.replace(", ", "_")
        models[f"only {name}"] = str(train(_specialist(config, options, domain), folder, Listener()))
    scans = list(held_out_pairs(list(dict.fromkeys(sensor for sensor, _ in DOMAINS)), _SPOTS))
    records = []
    for sensor, voxel in DOMAINS:
        here, domain_name = [s for s in scans if s.sensor == sensor], _name((sensor, voxel))
        for name, model in models.items():
            home = " (home)" if name == f"only {domain_name}" else ""
            records.append({"domain": domain_name, "model": name, "home": home, **_judge(here, voxel, model)})
        for name, errors in pca_normals(here, voxel).items():
            judged = {**vars(errors), "nll": np.nan, "squared_median": np.nan}
            records.append({"domain": domain_name, "model": name, "home": "", **judged})
    notes = [
        "normal RMSE / median in degrees / NLL in nats per match (one in ten an outlier), in six held-out places",
        f"PCA: k of {', '.join(map(str, NEIGHBORS))}; weighted PCA: the same k, and the inverse distance to the power of "
        f"{', '.join(map(str, POWERS))} as weight; the best setting for each number, chosen with the true normals",
        f"specialists: trained from scratch for {options.steps} steps on {options.worlds} worlds, one sensor and one voxel size, "
        "with the architecture and loss of the one model",
    ]
    yield Report("generalization", "One general model against specialists", records, _TABLE, notes)


def _specialist(config: TrainConfig, options: Options, domain: Domain) -> TrainConfig:
    assert config.scans is not None
    sensor, voxel = domain
    scans = replace(
        config.scans, sensors=(sensor,), sensors_each=1, voxels=(voxel,), raw_share=0.0, worlds=options.worlds, validation_worlds=4
    )
    schedule = replace(config.schedule, steps=options.steps, validate_every=options.steps)
    return replace(config, name=_name(domain), initial="", scans=scans, schedule=schedule)


def _judge(scans: list[HeldOut], voxel: float, model: str) -> dict[str, float]:
    clouds = [(s.cloud(voxel), s.normals(voxel)) for s in scans]
    fields = [estimate(cloud, model, warn=False) for cloud, _ in clouds]
    errors = AngleErrors.of(normal_angles(clouds, fields)[0])
    losses, squares = likelihoods([s.matches(voxel) for s in scans], fields)
    return {"rmse": errors.rmse, "median": errors.median, "nll": float(losses.mean()), "squared_median": float(np.median(squares))}


def pca_normals(scans: Sequence[HeldOut], voxel: float) -> dict[str, BestErrors]:
    """Normal errors of PCA and of weighted PCA, with the best settings for each measure."""
    plain, weighted = pca_angles([(s.cloud(voxel), s.normals(voxel)) for s in scans])
    return {
        "PCA": BestErrors.of({f"k {k}": AngleErrors.of(degrees) for k, (degrees, _) in plain.items()}),
        "weighted PCA": BestErrors.of({setting_name(s): AngleErrors.of(degrees) for s, (degrees, _) in weighted.items()}),
    }


def _name(domain: Domain) -> str:
    return f"{domain[0]}, {domain[1]:g} m"
