"""Accuracy against time of networks of many sizes, trained from scratch on the same data for the same number of steps.

Each variant changes the architecture of a configuration. Accuracy is measured on its validation surfaces and, for scans, on real
sequences; time after all training. Runs are kept: an interrupted benchmark resumes.

Examples:
python -m benchmarks frontier configs/lidar.toml --real sequences --out docs/results
python -m benchmarks frontier configs/objects.toml --out docs/results
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data.drives import SYSTEM_SEQUENCES, RealDrive
from benchmarks.data.real_sequences import RealConfiguration, real_pairs
from benchmarks.data.sized_clouds import real_cloud, simulated_cloud
from benchmarks.metrics.likelihood import nll, squared
from benchmarks.options import PROCESSES, REAL, option
from benchmarks.parallel import in_processes
from benchmarks.report import Report, Table, column_list, pyplot, save_figure
from benchmarks.rivals.odometry_contestants import CHOSEN, MAP, our_contestant
from benchmarks.rivals.pca import pca_rivals
from benchmarks.timing import medians, same_threads, stopwatch
from poli.errors import InputError
from poli.estimation import estimate
from poli.estimation.architecture import Architecture
from poli.estimation.estimate import load_model
from poli.io.atomic import atomic_path
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.train.config import ScheduleConfig, StageConfig, TrainConfig, read_config
from poli.train.model_file import calibrated
from poli.train.object_pairs import ObjectSource
from poli.train.scan_pairs import ScanSource, recorded_scans
from poli.train.trainer import train
from poli.train.validate import validate

# Changes of the configuration's architecture, by name.
_WIDE: dict[str, Any] = {
    "neighbors": (16, 16, 16), "edge": (24, 32, 48), "scalars": (32, 48, 64), "head": 32, "reach": 16, "wide": (8, 8),
    "attention": 16, "heads": 4, "rounds": 2, "size": 48, "curvature": 0,
}  # fmt: skip
_MEDIUM = {**_WIDE, "edge": (16, 24, 32), "scalars": (24, 32, 48), "head": 24, "attention": 8, "heads": 2, "size": 32}
_NARROW = {**_WIDE, "edge": (12, 16, 24), "scalars": (16, 24, 32), "head": 16, "attention": 8, "size": 24}
_NARROWER = {**_NARROW, "heads": 2}
_TWELVE = {**_NARROWER, "neighbors": (12, 12, 12), "reach": 12}
VARIANTS: dict[str, dict[str, Any]] = {
    "wide": _WIDE,
    "medium, 12, 12 and 8 neighbors": {**_MEDIUM, "neighbors": (12, 12, 8), "reach": 12},
    "narrow": _NARROW,
    "narrow, no wide neighbors": {**_NARROWER, "reach": 24, "wide": ()},
    "narrow, one round": {**_NARROWER, "rounds": 1},
    "narrow, 12 neighbors": _TWELVE,
    "narrow, two levels": {**_NARROWER, "neighbors": (16, 16), "edge": (12, 16), "scalars": (16, 24), "wide": (8,)},
    "tiny": {**_TWELVE, "edge": (8, 12, 16), "scalars": (8, 16, 24), "wide": (8,)},
}
_OBJECTS: dict[str, Any] = {
    "neighbors": (16, 16), "edge": (24, 48), "scalars": (32, 64), "head": 32, "reach": 36, "wide": (),
    "attention": 16, "heads": 4, "rounds": 2, "size": 0, "curvature": 0, "curvature_wide": (),
}  # fmt: skip
_SLIM = {**_OBJECTS, "edge": (16, 32), "scalars": (24, 48), "head": 24, "attention": 8, "heads": 2}
OBJECT_VARIANTS: dict[str, dict[str, Any]] = {
    "wide": _OBJECTS,
    "medium": _SLIM,
    "medium, 24 neighbors": {**_SLIM, "reach": 24},
    "as for scans": {**_MEDIUM, "neighbors": (12, 12, 8), "reach": 12, "size": 0, "curvature_wide": ()},
}
_JUDGED = (
    RealConfiguration("kitti_raw_0013", 0.5, 16), RealConfiguration("kitti_raw_0013", 0.5),
    RealConfiguration("nuscenes_0001", 0.5, nearest=2.5), RealConfiguration("mulran_kaist03", 0.5),
)  # fmt: skip
_DRIVEN = ("kitti_raw_0013", "nuscenes_0001", "mulran_kaist03")
_TIMED = 10_000  # points


@dataclass(frozen=True)
class Options:
    config: Path = option(Path("configs/lidar.toml"), "training configuration of scans", argument=True)
    real: Path | None = option(None, REAL)
    runs: Path = option(Path("runs/frontier"), "folder for the training runs; they resume")
    shapes: int = option(1200, "steps of shapes", least=1)
    sizes: int = option(300, "steps of sizes", least=1)
    worlds: int = option(36, "worlds to train on", least=1)
    variants: tuple[str, ...] = option((), "numbers of variants, separated by commas; default: all")
    processes: int = option(2, PROCESSES, least=1)
    repeats: int = option(15, "runs of each estimate; the median is reported", least=1)


_MEASURES = column_list(
    multiply_adds="{multiply_adds:.0f}", ms="{ms:.1f}", ms_over_Open3D="{ratio:.2f}", training="{minutes:.1f}",
    normals="{normal_rmse:.2f} / {normal_median:.2f}", NLL="{held_out_nll:.2f}",
)  # fmt: skip
_REAL = column_list(real_NLL="{real_nll:.2f}", real_median="{real_median:.2f}", odometry="{step_m:cm}")


def run(options: Options) -> Iterator[Report]:
    config = replace(read_config(options.config), curvature=StageConfig())  # shapes and sizes only
    variants = VARIANTS if config.scans else OBJECT_VARIANTS
    known = {str(number): name for number, name in enumerate(variants)}
    for number in options.variants:
        if number not in known:
            raise InputError(f"variants: {number!r} is unknown; choose from 0 to {len(known) - 1}")
    names = [known[number] for number in options.variants] or list(variants)
    if config.scans and options.real is None:
        raise InputError("the frontier of scans needs real sequences; give their folder by --real")
    if config.scans:
        _source(options, config, config.architecture)  # type: ignore[arg-type]  # worlds are recorded once, for all
    records = in_processes(partial(_trained, options, config), names, options.processes, "networks")
    with same_threads() as threads:
        cloud = real_cloud(options.real, _TIMED) if options.real else simulated_cloud(_TIMED)
        work: dict[str, Any] = {r["name"]: partial(estimate, cloud.points, r["model"], warn=False) for r in records}
        spent = medians({name: stopwatch(do) for name, do in {**work, **pca_rivals(cloud.points)}.items()}, options.repeats)
    for r in records:
        r["ms"] = spent[r["name"]]["total"]
        r["ratio"] = r["ms"] / spent["open3d"]["total"]
        del r["model"]
    notes = [
        f"{options.shapes} steps of shapes and {options.sizes} of sizes from scratch, the same data for all, seed {config.seed}; "
        f"training: minutes of one core, {options.processes} networks at once",
        f"multiply-adds per point; ms: estimate of {_TIMED} points of {cloud.source}, {threads} threads, median of "
        f"{options.repeats} runs",
        "normals (degrees, RMSE / median) and NLL (nats per match) on held-out surfaces",
    ]
    if config.scans:
        notes += [
            f"{options.worlds} worlds; real NLL and median of d'(2C)^-1 d (2.37 when calibrated): means over "
            f"{', '.join(one.label for one in _JUDGED)}",
            f"odometry: error per scan in cm, mean over {', '.join(_DRIVEN)} (KITTI with 16 beams)",
        ]
    name = "frontier" if config.scans else "frontier_objects"
    table = Table(column_list(architecture="{name}"), [*_MEASURES, *(_REAL if config.scans else ())])
    yield Report(name, "Accuracy and time of networks of many sizes", records, table, notes, plots={name: partial(_draw, records)})


def _source(options: Options, config: TrainConfig, architecture: Architecture) -> ScanSource | ObjectSource:
    config = replace(config, architecture=architecture)
    if config.scans is None:
        return ObjectSource(config, options.config.parent, lambda made, total: None)
    scans = replace(config.scans, worlds=options.worlds)
    return recorded_scans(scans, architecture, config.seed, Path(), options.runs, lambda made, total: None)


def _trained(options: Options, config: TrainConfig, name: str) -> dict[str, Any]:
    """Train a variant and judge it. Both are kept in its folder."""
    torch.set_num_threads(1)
    folder = options.runs / f"{config.name}_{name.replace(', ', '_').replace(' ', '_')}"
    kept = folder / "judged.json"
    architecture = replace(config.architecture, **(VARIANTS if config.scans else OBJECT_VARIANTS)[name])
    known = {"architecture": repr(architecture), "shapes": options.shapes, "sizes": options.sizes, "worlds": options.worlds}
    if kept.is_file() and (before := json.loads(kept.read_text()))["known"] == known:
        return before["record"]
    source = _source(options, config, architecture)  # type: ignore[arg-type]
    settings = replace(
        config, name=name, architecture=architecture, schedule=ScheduleConfig(validate_every=options.shapes + options.sizes),
        shapes=replace(config.shapes, steps=options.shapes), sizes=replace(config.sizes, steps=options.sizes),
    )  # fmt: skip
    start = time.perf_counter()
    path = train(settings, folder, source=source)
    minutes = (time.perf_counter() - start) / 60.0
    result = validate(calibrated(load_model(path), settings.loss), source.held_out(draws=4))
    assert result is not None
    record = {
        "name": name, "multiply_adds": architecture.multiply_adds(), "minutes": minutes, "normal_rmse": result.normal_rmse,  # type: ignore[union-attr]
        "normal_median": result.normal_median, "held_out_nll": result.loss, "model": str(path),
    }  # fmt: skip
    if config.scans:
        scores, steps = _likelihood(options.real, str(path)), _steps(options.real, str(path))
        nlls, middles = ([score[which] for score in scores.values()] for which in ("nll", "median"))
        record |= {"real": scores, "steps": steps, "real_nll": float(np.mean(nlls)), "real_median": float(np.mean(middles))}
        record["step_m"] = float(np.mean(list(steps.values())))
    with atomic_path(kept) as temporary:
        temporary.write_text(json.dumps({"known": known, "record": record}))
    return record


def _likelihood(real: Path | None, model: str) -> dict[str, dict[str, float]]:
    """Mean NLL and median of d'(2C)^-1 d on real scans."""
    assert real is not None
    found = {}
    for one in _JUDGED:
        pairs = real_pairs(real, one, 6)
        matches = [pair.matches(one.voxel) for pair in pairs]
        covariances = [estimate(m.points, model, warn=False).covariances[m.rows] for m in matches]
        d, C = np.concatenate([m.d for m in matches]), np.concatenate(covariances)
        found[one.label] = {"nll": float(nll(d, C).mean()), "median": float(np.median(squared(d, C)))}
    return found


def _steps(real: Path | None, model: str) -> dict[str, float]:
    """Error of odometry per scan in meters, by sequence."""
    assert real is not None
    found = {}
    for name in _DRIVEN:
        one = next(r for r in SYSTEM_SEQUENCES if r.sequence == name and r.beams in (16, None))
        drive = RealDrive(real, one).open()
        outcome = our_contestant(MAP, CHOSEN, model).run(drive.recorded)
        found[drive.name] = relative_errors(outcome.poses, drive.poses, 1, pairs="all").rmse.translation
    return found


def _draw(records: list[dict[str, Any]], path: Path) -> None:
    """Draw normals, likelihood and odometry against time."""
    plt = pyplot()
    measures = {
        "normal_rmse": "normal RMSE, degrees", "normal_median": "normal median, degrees", "held_out_nll": "NLL, held out",
        "real_nll": "NLL, real scans", "step_m": "odometry per scan, m",
    }  # fmt: skip
    measures = {name: label for name, label in measures.items() if name in records[0]}
    figure, axes = plt.subplots(1, len(measures), figsize=(4.2 * len(measures), 5.0))
    for (measure, label), drawn in zip(measures.items(), axes, strict=True):
        for number, r in enumerate(records):
            drawn.plot(r["ms"], r[measure], "os^D"[number // 10], color=f"C{number % 10}", label=r["name"])
        drawn.set(xlabel=f"ms for {_TIMED} points", ylabel=label)
        drawn.grid(alpha=0.3)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, fontsize=8, frameon=False)
    save_figure(figure, path)
    plt.close(figure)
