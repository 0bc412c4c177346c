"""Contestants of `python -m benchmarks odometry`: rivals with all their settings, and variants of our odometry."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data.drives import RecordedDrive
from benchmarks.rivals.odometry import METHODS
from benchmarks.rivals.tracks import Run, Track, without_times
from poli.lidar_odometry import Odometer, OdometryConfig, Status
from poli.lidar_odometry.gicp import GicpConfig
from poli.lidar_odometry.matching import Metric
from poli.scan import ScanLike

CHOSEN = 0.0  # voxel size: chosen by the method
VARIANTS = tuple(name for name, method in METHODS.items() if method.voxelized)
SYSTEMS = tuple(name for name, method in METHODS.items() if not method.voxelized)
SCAN, MAP, PCA, RAW = "POLI scan to scan", "POLI scan to map", "PCA in our GICP", "POLI raw covariances"
OURS = (SCAN, MAP, PCA, RAW)

_LAGGING = ("KISS-ICP", "GenZ-ICP")  # their deskewing can oscillate; CT-ICP estimates the motion, MAD-ICP and LOAM need it

# Raw covariances, a few millimeters thick, would let the nearest walls dominate GICP.
_RAW = GicpConfig(metric=Metric(kind="raw", thickness=0.03))


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a contestant on a drive."""

    poses: np.ndarray  # (M, 4, 4): each scan in the frame of the first
    seconds: np.ndarray  # (M,): wall time of each scan, from raw points to pose
    restarts: int = 0  # scans that could not be localized, where our odometry started a new map
    degenerate: int = 0  # scans with an unconstrained direction, as detected by our odometry


@dataclass(frozen=True)
class Contestant:
    method: str
    setting: str
    voxel: float  # meters, or `CHOSEN`
    run: Callable[[Sequence[ScanLike]], Outcome]
    ours: OdometryConfig | None = None  # None: a rival

    @property
    def timed(self) -> bool:
        """Whether it is timed: systems are; of methods with a given voxel size, only the best settings are, later."""
        return self.voxel == CHOSEN

    @property
    def about(self) -> dict[str, Any]:
        """Everything its result depends on, except the model's weights."""
        known = {"method": self.method, "setting": self.setting, "voxel": self.voxel}
        return known if self.ours is None else {**known, "ours": {**asdict(self.ours), "model": ""}}


def contestants(voxels: Sequence[float], model: str, rivals: Sequence[str] = tuple(METHODS)) -> list[Contestant]:
    """Each scan-to-scan rival with its settings at each voxel size, the systems, and all of our variants."""
    found = []
    for voxel in voxels:
        found += [_rival(name, setting, voxel, way) for name in VARIANTS if name in rivals for setting, way in _ways(name, voxel)]
        found += [our_contestant(method, voxel, model) for method in OURS]
    found += [_rival(name, setting, CHOSEN, way) for name in SYSTEMS if name in rivals for setting, way in _ways(name, CHOSEN)]
    return [*found, our_contestant(MAP, CHOSEN, model)]


def our_contestant(method: str, voxel: float, model: str) -> Contestant:
    against, of = "map" if method == MAP else "scan", "pca" if method == PCA else model
    gicp = _RAW if method == RAW else GicpConfig()
    config = OdometryConfig(against=against, voxel=voxel, model=of, gicp=gicp, on_loss="restart")  # type: ignore[arg-type]
    return Contestant(
        method, "raw covariances, 3 cm" if method == RAW else "defaults", voxel, partial(run_ours, config=config), config
    )


def system_contestants(drive: RecordedDrive, model: str, rivals: Sequence[str] = SYSTEMS) -> list[Contestant]:
    """The systems with all settings that suit the drive, and our odometry on a map.

    With point times, rivals that deskew by the motion of the scan before also run without them, and the better run counts.
    """
    found = []
    for name in (name for name in SYSTEMS if name in rivals):
        ways = (METHODS[name].indoors if drive.indoors else METHODS[name].outdoors) or METHODS[name].ways(CHOSEN)
        found += [_rival(name, setting, CHOSEN, way) for setting, way in ways.items()]
        if drive.times is not None and name in _LAGGING:
            found += [_rival(name, f"{setting}, no times", CHOSEN, partial(_untimed, way=way)) for setting, way in ways.items()]
    return [*found, our_contestant(MAP, CHOSEN, model)]


def _untimed(scans: Sequence[ScanLike], way: Run) -> Track:
    return way(without_times(scans))


def run_ours(scans: Sequence[ScanLike], config: OdometryConfig) -> Outcome:
    odometer, seconds = Odometer(config), []
    for points in scans:
        start = time.perf_counter()
        odometer.add(points)
        seconds.append(time.perf_counter() - start)
    statuses = [step.status for step in odometer.steps]
    return Outcome(odometer.poses, np.array(seconds), statuses.count(Status.RESTARTED), statuses.count(Status.DEGENERATE))


def _ways(name: str, voxel: float) -> list[tuple[str, Run]]:
    return list(METHODS[name].ways(voxel).items())


def _rival(name: str, setting: str, voxel: float, way: Run) -> Contestant:
    return Contestant(name, setting, voxel, partial(_run_rival, way=way))


def _run_rival(scans: Sequence[ScanLike], way: Run) -> Outcome:
    track = way(scans)
    return Outcome(track.poses, track.seconds)
