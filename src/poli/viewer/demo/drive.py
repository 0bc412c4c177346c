"""The fourth step: odometry on a short simulated drive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.lidar_odometry import Odometer, OdometryConfig
from poli.lidar_odometry.summary import total_seconds
from poli.lidar_odometry.trajectory_errors import path_lengths, relative_errors
from poli.scan import Scan
from poli.se3 import inverse
from poli.viewer.demo.town import SENSOR, START
from poli.worlds import Ride, World
from poli.worlds.drive import Drive

SCANS = 40


@dataclass(frozen=True)
class DriveErrors:
    drift: float  # error of the last position as a share of the path
    end: float  # error of the last position, in meters
    step_translation: float  # meters, RMSE per step
    step_rotation: float  # degrees
    seconds: float  # median per scan


@dataclass(frozen=True)
class DriveFigures:
    scans: int
    path: float  # meters
    voxel: float  # meters
    poli: DriveErrors
    pca: DriveErrors


@dataclass(frozen=True, eq=False)
class Driven:
    """Poses in the frame of the first scan."""

    stamps: tuple[int, ...]  # nanoseconds
    truth: np.ndarray  # (M, 4, 4)
    poli: np.ndarray  # (M, 4, 4)
    pca: np.ndarray  # (M, 4, 4)
    map: Ellipsoids


def compare_drive(world: World, count: int = SCANS, step: Callable[[str], None] = lambda _: None) -> tuple[DriveFigures, Driven]:
    """Compare odometry with POLI and PCA. Calls `step` with a message three times per scan: simulated, and aligned by both."""
    drive = Drive(world, SENSOR, Ride(start=START), count)
    scans = []
    for scan in drive:
        scans.append(scan.keep())
        step(f"scan {len(scans)} of {count} simulated")
    truth = inverse(drive.poses[0]) @ drive.poses
    poli, rival = (_run(scans, model, step) for model in ("lidar", "pca"))
    assert poli.map is not None
    path = float(path_lengths(truth)[-1])
    figures = DriveFigures(count, path, poli.voxel, _errors(poli, truth, path), _errors(rival, truth, path))
    stamps = tuple(int(scan.stamp or 0) for scan in scans)
    return figures, Driven(stamps, truth, poli.poses, rival.poses, poli.map.field)


def _run(scans: Sequence[Scan], model: str, step: Callable[[str], None]) -> Odometer:
    odometer = Odometer(OdometryConfig(model=model))
    for scan in scans:
        odometer.add(scan)
        step(f"scan {len(odometer.steps)} of {len(scans)} aligned by {'PCA' if model == 'pca' else 'POLI'}")
    return odometer


def _errors(odometer: Odometer, truth: np.ndarray, path: float) -> DriveErrors:  # (M, 4, 4)
    end = float(np.linalg.norm(odometer.poses[-1, :3, 3] - truth[-1, :3, 3]))
    steps = relative_errors(odometer.poses, truth).rmse
    seconds = float(np.median([total_seconds(step) for step in odometer.steps]))
    return DriveErrors(end / path, end, steps.translation, steps.rotation, seconds)
