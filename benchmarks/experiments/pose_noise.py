"""Cost for odometry of trusting wrong measured poses in training (supplement SE).

Two identical networks are trained on identical scans with wrong measured poses: with T-Q-C, which trusts them, and with T-T-Q-C,
which models their error. They are compared by scan-to-scan odometry with their covariances, and by their normals.

Example: python -m benchmarks pose_noise configs/lidar_noise.toml
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks.data.drives import simulated_sequences
from benchmarks.data.held_out import PLACES, HeldOut, held_out_pairs
from benchmarks.experiments.generalization import pca_normals
from benchmarks.experiments.geometry import normal_angles
from benchmarks.metrics.odometry import DELTAS, Judged, judge, mean_rpe
from benchmarks.metrics.surface import AngleErrors
from benchmarks.options import DRIVES, option
from benchmarks.report import Column, Report, Table, mean
from benchmarks.rivals.odometry_contestants import RAW, SCAN, our_contestant
from poli.errors import InputError
from poli.estimation import estimate
from poli.learn.config import TrainConfig, read_config
from poli.learn.losses import LossKind
from poli.learn.trainer import train

KINDS: dict[str, LossKind] = {"T-Q-C": "tqc", "T-T-Q-C": "ttqc"}
WAYS = {"directions": SCAN, "raw covariances": RAW}  # how covariances enter GICP: our way, and the paper's
_SENSOR, _VOXEL = "vlp16", 0.5  # meters


@dataclass(frozen=True)
class Options:
    config: Path = option(Path("configs/lidar_noise.toml"), "training configuration for scans; its loss is replaced", argument=True)
    drives: Path = option(Path("runs/odometry_drives"), DRIVES)
    scans: int = option(121, "scans per simulated drive", least=2)
    places: tuple[str, ...] = option(PLACES, "held-out places, separated by commas")
    spots: int = option(2, "spots per held-out place (of six) for evaluating normals", least=1)
    runs: Path = option(Path("runs/pose_noise"), "folder for the two training runs; they resume")


_TABLE = Table(
    [Column("loss", "{loss}"), Column("covariances", "{covariances}")],
    [
        *(Column(f"RPE {frames}", f"{{rpe_{frames}_m:cm}}", lowest=f"rpe_{frames}_m") for frames in DELTAS),
        Column("normals", "{normals_rmse_deg:.1f} / {normals_median_deg:.1f}"),
        Column("restarts", "{restarts}"),
    ],
    among="{covariances}",
)


def run(options: Options) -> Iterator[Report]:
    config, models = read_config(options.config), {}
    if config.scans is None:
        raise InputError(f"{options.config}: not a configuration for scans; give one like configs/lidar_noise.toml")
    for name, kind in KINDS.items():
        Console().print(f"training with {name}, or resuming in {options.runs / kind}")
        models[name] = str(train(configured(config, kind), options.runs / kind, beside=options.config.parent))
    yield report(options, config, models)


def configured(config: TrainConfig, kind: LossKind) -> TrainConfig:
    return replace(config, loss=replace(config.loss, kind=kind))


def report(options: Options, config: TrainConfig, models: dict[str, str]) -> Report:
    """Evaluate `models`: paths of trained models by the name of their loss."""
    judged = _odometry(options, models)
    held_out = list(held_out_pairs((_SENSOR,), options.spots))
    normals = {name: _normals(held_out, model) for name, model in models.items()}
    records: list[dict[str, Any]] = []
    for (name, way), drives in judged.items():
        errors: dict[str, Any] = {f"rpe_{frames}_m": mean_rpe(drives, frames) for frames in DELTAS}
        errors |= {f"rpe_{frames}_deg": mean(j.rpe[frames].degrees for j in drives) for frames in DELTAS}
        errors |= {"normals_rmse_deg": normals[name].rmse, "normals_median_deg": normals[name].median}
        errors |= {"restarts": sum(j.restarts for j in drives), "drives": [j.flat() for j in drives]}
        records.append({"loss": name, "covariances": way, **errors})
    rivals = pca_normals(held_out, _VOXEL)
    shown = [f"{n} {e.rmse:.1f} ({e.rmse_setting}) / {e.median:.1f} ({e.median_setting})" for n, e in rivals.items()]
    sources = config.scans
    assert sources is not None
    notes = [
        f"odometry from scan to scan, {_SENSOR} at {_VOXEL:g} m, on drives of {options.scans} scans in held-out worlds "
        f"({', '.join(options.places)}): mean over the drives of the RMSE of the RPE, in centimeters, by number of frames",
        "directions: covariances enter GICP by their axes and as weights, as in our odometry; raw covariances: unchanged but "
        "thickened by 3 cm, as in the paper",
        f"trained for {config.schedule.steps} steps with errors of the measured poses of {sources.rotation_noise:g} degrees "
        f"and {sources.translation_noise:g} m per axis; normals: RMSE / median in degrees, spots per place: {options.spots}",
        f"normals without learning, with the best settings for each number: {', '.join(shown)}",
    ]
    return Report("pose_noise", "Losses under wrong poses, evaluated by odometry", records, _TABLE, notes, {"pca_normals": rivals})


def _odometry(options: Options, models: dict[str, str]) -> dict[tuple[str, str], list[Judged]]:
    judged: dict[tuple[str, str], list[Judged]] = {(name, way): [] for way in WAYS for name in models}
    drives = simulated_sequences((_SENSOR,), options.places, options.scans, keep=options.drives)
    for drive in track(drives, "drives", total=len(options.places)):
        for name, way in judged:
            contestant = our_contestant(WAYS[way], _VOXEL, models[name])
            judged[name, way].append(judge(drive, contestant, contestant.run(drive.scans)))
    return judged


def _normals(scans: Sequence[HeldOut], model: str) -> AngleErrors:
    clouds = [(s.cloud(_VOXEL), s.normals(_VOXEL)) for s in scans]
    return AngleErrors.of(normal_angles(clouds, [estimate(cloud, model) for cloud, _ in clouds])[0])
