"""`python -m benchmarks pose_noise` (supplement SE): what it costs odometry to take measured poses for true when learning from scans.

Two equal networks learn from equal scans whose measured poses are wrong: with T-Q-C, which believes them, and with T-T-Q-C, which
knows that they err. What counts is odometry from scan to scan with their covariances, and their normals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks.data.drives import simulated_sequences
from benchmarks.data.held_out import PLACES, HeldOut, held_out_pairs
from benchmarks.experiments.geometry import normal_angles
from benchmarks.metrics.odometry import DELTAS, Judged, judge, mean, mean_rpe, number
from benchmarks.metrics.surface import AngleErrors
from benchmarks.report import Report, bold_lowest, centimetres, publish
from benchmarks.rivals.odometry_contestants import RAW, SCAN, our_contestant
from poli.errors import InputError
from poli.estimation import estimate
from poli.learn.config import TrainConfig
from poli.learn.losses import LossKind
from poli.learn.trainer import train

KINDS: dict[str, LossKind] = {"T-Q-C": "tqc", "T-T-Q-C": "ttqc"}
WAYS = {"directions": SCAN, "raw covariances": RAW}  # how covariances enter GICP: ours, and the paper's
_SENSOR, _VOXEL = "vlp16", 0.5  # metres


@dataclass(frozen=True)
class LabelsBench:
    config: TrainConfig
    beside: Path = Path()  # the folder that file names in the configuration count from
    places: tuple[str, ...] = PLACES
    scans: int = 121  # of each drive
    drives: Path = Path("runs/odometry_drives")  # where they are kept
    spots: int = 2  # in each of six places, for normals

    def __post_init__(self) -> None:
        if self.config.scans is None:
            raise InputError("the configuration is not one of scans; give one like configs/lidar_noise.toml")


def run(bench: LabelsBench, runs: Path, out: Path, json_path: Path | None, command: str) -> None:
    models = {}
    for name, kind in KINDS.items():
        Console().print(f"training with {name}, or what there is of it in {runs / kind}")
        models[name] = str(train(configured(bench.config, kind), runs / kind, beside=bench.beside))
    publish(report(bench, models, command), "labels", out, json_path)


def configured(config: TrainConfig, kind: LossKind) -> TrainConfig:
    return replace(config, loss=replace(config.loss, kind=kind))


def report(bench: LabelsBench, models: dict[str, str], command: str) -> Report:
    """`models`: by the name of their loss, the path of what was learned."""
    judged = _odometry(bench, models)
    held_out = list(held_out_pairs((_SENSOR,), bench.spots))
    normals = {name: _normals(held_out, model) for name, model in models.items()}
    rows: list[list[str]] = []
    figures: dict[str, dict[str, Any]] = {}
    for way in WAYS:
        rpe = {frames: {name: mean_rpe(judged[name, way], frames) for name in models} for frames in DELTAS}
        bold = {frames: bold_lowest(by, {name: centimetres(x) for name, x in by.items()}) for frames, by in rpe.items()}
        for name in models:
            drives = judged[name, way]
            restarts = sum(j.restarts for j in drives)
            angles = f"{normals[name].rmse:.1f} / {normals[name].median:.1f}"
            rows.append([name, way, *(bold[frames][name] for frames in DELTAS), angles, str(restarts)])
            figures[f"{name}, {way}"] = {
                **{f"rpe_{frames}_m": number(rpe[frames][name]) for frames in DELTAS},
                **{f"rpe_{frames}_deg": number(mean([j.rpe[frames].degrees for j in drives])) for frames in DELTAS},
                "normals_rmse_deg": normals[name].rmse,
                "normals_median_deg": normals[name].median,
                "restarts": restarts,
                "drives": [j.flat() for j in drives],
            }
    assert bench.config.scans is not None
    sources = bench.config.scans
    notes = [
        f"odometry from scan to scan, {_SENSOR} at {_VOXEL:g} m, on drives of {bench.scans} scans in held-out worlds "
        f"({', '.join(bench.places)}): the mean over them of the RPE's root mean square, in centimetres, by frames apart",
        "directions: covariances enter GICP by their axes and as trust, as our odometry uses them; raw covariances: as they are, "
        "thickened by 3 cm, as the paper does",
        f"trained for {bench.config.schedule.steps} steps with measured poses that are wrong by {sources.rotation_noise:g} degrees "
        f"and {sources.translation_noise:g} m an axis; normals: RMSE / median in degrees, spots in every place: {bench.spots}",
    ]
    columns = ["loss", "covariances", *(f"RPE {frames}" for frames in DELTAS), "normals", "restarts"]
    return Report("Losses under wrong poses, judged by odometry", command, columns, rows, notes, {"losses": figures})


def _odometry(bench: LabelsBench, models: dict[str, str]) -> dict[tuple[str, str], list[Judged]]:
    judged: dict[tuple[str, str], list[Judged]] = {(name, way): [] for way in WAYS for name in models}
    drives = simulated_sequences((_SENSOR,), bench.places, bench.scans, keep=bench.drives)
    for drive in track(drives, "drives", total=len(bench.places)):
        for name, way in judged:
            contestant = our_contestant(WAYS[way], _VOXEL, models[name])
            judged[name, way].append(judge(drive, contestant, contestant.run(drive.scans)))
    return judged


def _normals(scans: Sequence[HeldOut], model: str) -> AngleErrors:
    clouds = [(s.cloud(_VOXEL), s.normals(_VOXEL)) for s in scans]
    return AngleErrors.of(normal_angles(clouds, [estimate(cloud, model) for cloud, _ in clouds])[0])
