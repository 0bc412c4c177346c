"""Whether odometry knows which motions a place leaves undetermined, and what it does about the others.

A VLP-16 is carried or driven through bare places: corridors, tunnels, fields, a parking deck and a stairwell. The undetermined
motions are known. Each must be reported in every scan, and no other one.

Example: python -m benchmarks degeneracy --voxels 0.2,0.3,0.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.data.bare_places import PERIOD, Scenario, scenarios
from benchmarks.options import option
from benchmarks.report import Report, Table, column_list
from benchmarks.rivals.odometry import run_kiss
from poli.scan import Scan
from poli.se3 import inverse, so3_log
from poli.tasks.degeneracy import UNITS
from poli.tasks.odometry import Odometer, OdometryConfig

_NAMES = ("roll", "pitch", "yaw", "x", "y", "z")
_CELL = 0.5  # meters: cells in which the thickness of walls is measured
_ALIKE = 0.95  # cosine of the angle between reported and undetermined motions
_FEWEST = 30  # points of such a cell


@dataclass(frozen=True)
class Options:
    scans: int = option(40, "scans per place", least=3)
    voxels: tuple[float, ...] = option((0.2, 0.3, 0.5), "voxel sizes in meters, separated by commas")
    seed: int = option(7, "seed of the noise", least=0)


_TABLE = Table(
    column_list(place="{place}", sensor="{sensor}", undetermined="{undetermined}", voxel="{voxel} m"),
    column_list(
        right="{right} of {scans}",
        reported="{reported}",
        error_cm="{error_cm:.1f}",
        error_deg="{error_deg:.2f}",
        wall_mm="{wall_mm:.1f}",
        true_wall_mm="{true_wall_mm:.1f}",
        KISS_ICP_cm="{kiss_cm:.1f}",
        KISS_ICP_deg="{kiss_deg:.2f}",
    ),
)


def run(options: Options) -> Iterator[Report]:
    records: list[dict[str, Any]] = []
    for scenario in track(scenarios(), "Places"):
        scans, poses = recorded(scenario, options.scans, options.seed)
        kiss = determined_error(scenario, poses, run_kiss([scan.points for scan in scans]).poses)
        rival = {"kiss_cm": 100.0 * kiss[0], "kiss_deg": kiss[1]}
        records += [{**measure(scenario, scans, poses, voxel), **rival} for voxel in options.voxels]
    notes = [
        "Right: scans in which exactly the undetermined motions were reported. Reported: how often each was.",
        "Errors are those of the last pose, without the undetermined motions, about which no method can know anything.",
        f"Wall: median thickness of the scans in cells of {_CELL:g} m, one sigma, merged by the estimated and by the true poses.",
        "In places without an undetermined motion, walls that are thicker than with the true poses show a wrong pose.",
        "KISS-ICP with its defaults, on the same scans.",
    ]
    yield Report("degeneracy", "Undetermined motions", records, _TABLE, notes)


def recorded(scenario: Scenario, count: int, seed: int) -> tuple[list[Scan], np.ndarray]:
    """Scans and their true poses (count, 4, 4)."""
    rng, poses = np.random.default_rng(seed), scenario.poses(count)
    return [replace(scenario.scan(T, rng), stamp=round(i * PERIOD * 1e9)) for i, T in enumerate(poses)], poses


def measure(scenario: Scenario, scans: Sequence[Scan], poses: np.ndarray, voxel: float) -> dict[str, Any]:  # (M, 4, 4)
    odometer = Odometer(OdometryConfig(voxel=voxel, on_loss="restart"))
    called, right = [], 0
    for scan, T in zip(scans, poses, strict=True):
        step = odometer.add(scan)
        if step.alignment is not None:
            found = step.alignment.degeneracy
            weak = found.directions[found.weak]
            called.append([motion_name(direction, T) for direction in weak])
            right += same_motions(weak, scenario.motions(T))
    error = determined_error(scenario, poses, odometer.poses)
    counts = Counter(name for names in called for name in names)
    return {
        "place": scenario.name,
        "sensor": "handheld" if scenario.handheld else "driven",
        "undetermined": ", ".join(scenario.undetermined) or "none",
        "voxel": voxel,
        "scans": len(called),
        "right": right,
        "reported": ", ".join(f"{name} {counts[name]}" for name in _NAMES if name in counts) or "none",
        "error_cm": 100.0 * error[0],
        "error_deg": error[1],
        "wall_mm": 1000.0 * _thickness(scans, odometer.poses),
        "true_wall_mm": 1000.0 * _thickness(scans, np.linalg.inv(poses[0]) @ poses),
    }


def same_motions(found: np.ndarray, true: np.ndarray) -> bool:  # (k, 6), (l, 6)
    """Whether two sets of directions span nearly the same motions, in units of what a prediction leaves open."""
    if len(found) != len(true):
        return False
    bases = [np.linalg.qr((rows / UNITS).T)[0] for rows in (found, true)]
    return bool((np.linalg.svd(bases[0].T @ bases[1], compute_uv=False) > _ALIKE).all())


def motion_name(direction: np.ndarray, T_world_sensor: np.ndarray) -> str:  # (6,), (4, 4)
    """The axis of the world that a direction in the frame of the sensor is closest to."""
    R = T_world_sensor[:3, :3]
    rotation, translation = R @ (direction / UNITS)[:3], R @ (direction / UNITS)[3:]
    return _NAMES[int(np.argmax(np.abs(np.concatenate([rotation, translation]))))]


def determined_error(scenario: Scenario, poses: np.ndarray, found: np.ndarray) -> tuple[float, float]:  # (M, 4, 4), (M, 4, 4)
    """Meters and degrees of the last pose relative to the first, without the undetermined motions."""
    truth, T = poses[-1], poses[0] @ inverse(found[0]) @ found[-1]
    shift, turn = T[:3, 3] - truth[:3, 3], so3_log(T[:3, :3] @ truth[:3, :3].T)
    if "roll" in scenario.undetermined:  # the distance from the axis is left
        shift = np.array([shift[0], 0.0, np.diff([np.linalg.norm((S[:3, 3] - scenario.center)[1:]) for S in (truth, T)])[0]])
    kept = np.array([name not in scenario.undetermined for name in _NAMES])
    return float(np.linalg.norm(shift[kept[3:]])), float(np.degrees(np.linalg.norm(turn[kept[:3]])))


def _thickness(scans: Sequence[Scan], poses: np.ndarray) -> float:  # (M, 4, 4) -> meters
    points = np.concatenate([s.points.astype(np.float64) @ T[:3, :3].T + T[:3, 3] for s, T in zip(scans, poses, strict=True)])
    _, cell, counts = np.unique(np.floor(points / _CELL), axis=0, return_inverse=True, return_counts=True)
    cell = cell.ravel()
    means = np.zeros((len(counts), 3))
    np.add.at(means, cell, points)
    off = points - (means / counts[:, None])[cell]
    spread = np.zeros((len(counts), 3, 3))
    np.add.at(spread, cell, off[:, :, None] * off[:, None, :])
    variances = np.linalg.eigvalsh(spread / counts[:, None, None])[counts >= _FEWEST, 0]
    return float(np.median(np.sqrt(np.maximum(variances, 0.0)))) if len(variances) else float("nan")
