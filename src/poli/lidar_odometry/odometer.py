"""Odometry: estimate the poses of scans, one at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from poli.beams.corrections import PERIOD
from poli.configs import OdometryConfig
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import estimate
from poli.estimation.estimate import PCA, UP
from poli.lidar_odometry import tuned
from poli.lidar_odometry.deskewing import PointTimes, Sweep, at_stamp
from poli.lidar_odometry.deskewing import deskew as deskew_scan
from poli.lidar_odometry.gicp import Alignment, align
from poli.lidar_odometry.local_map import EllipsoidMap, LocalMap
from poli.lidar_odometry.matching import Target, WeightedPoints
from poli.lidar_odometry.step import Status, Step, TrackingLost
from poli.options import configured, lists_options
from poli.scan import Scan, ScanLike
from poli.se3 import exp, inverse, log, nearest_rotation
from poli.voxels import voxel_means, voxel_numbers


class Odometer:
    """Estimates poses scan by scan: call `add` for each scan, in order. World is the frame of the first scan.

    The initial guess assumes constant velocity. If a scan does not fit there, it is searched more widely. If it fits nowhere,
    tracking is lost: the odometer stops or starts a new map (`on_loss`), and never adds the scan to the old map.
    """

    def __init__(self, config: OdometryConfig | None = None) -> None:
        self.config = config or OdometryConfig()
        self.voxel = self.config.voxel
        self.field: Ellipsoids | None = None  # of the latest scan, in its frame; None if it was not aligned
        self.steps: list[Step] = []
        self._local_map = LocalMap(self.config)
        self._velocity = np.zeros(6)  # tangent per second
        self._point_times = PointTimes(self.config.deskew, self.config.spin)
        self._periods: list[float] = []
        self._fits: list[float] = []
        self._missed = 0
        self._first: Scan | None = None  # not deskewed, until its motion is known

    @property
    def poses(self) -> np.ndarray:  # (M, 4, 4)
        """T_world_scan of all scans so far."""
        return np.stack([step.T_world_scan for step in self.steps]) if self.steps else np.empty((0, 4, 4))

    @property
    def map(self) -> EllipsoidMap | None:
        """The map around the sensor, or None before the first scan and if scans are aligned to scans."""
        return self._local_map.map

    @property
    def deskewing(self) -> str:
        """How the last scan was deskewed, or why it was not."""
        return self._point_times.said

    @property
    def period(self) -> float:
        """The usual time between scans in seconds: from their stamps, or else from the options."""
        return float(np.median(self._periods)) if self._periods else self.config.period or PERIOD

    def add(self, scan: ScanLike) -> Step:
        """Estimate the pose of the next scan. Raises `TrackingLost` if it cannot be localized and `on_loss` is "stop"."""
        scan = Scan.of(scan)
        seconds: dict[str, float] = {}
        elapsed, gap = self._elapsed(scan)
        T_expected = nearest_rotation(self.steps[-1].T_world_scan @ exp(elapsed * self._velocity)) if self.steps else np.eye(4)
        with _clock(seconds, "prepare"):
            cloud = self._prepare(scan)
        if len(cloud) < tuned.LEAST:
            why = f"only {len(cloud)} points remain of {len(scan)} returns"
            return self._predict(scan, T_expected, why, len(cloud), seconds)
        field, weighed, found = self._locate(cloud, T_expected, elapsed, seconds)
        if self._first is not None and found is not None and self._fits_well(found):
            T_expected = self._deskew_first(self._first, found, elapsed)
            self._first = None
            field, weighed, found = self._locate(cloud, T_expected, elapsed, seconds)
        self._first = cloud if "time" in cloud.fields and not self.steps else None
        status, note = (Status.FIRST, "") if not self.steps else self._judge(found, gap)
        if status is Status.RESTARTED and self.config.on_loss == "stop":
            raise TrackingLost(len(self.steps), note, self.poses)
        T = T_expected
        if found is not None and status is not Status.RESTARTED:
            T = nearest_rotation(self._local_map.T_world_target @ found.T_target_source)
            self._fits = [*self._fits[1 - tuned.USUAL :], found.fit]
        with _clock(seconds, "map"):
            self._remember(field, weighed, T, fresh=status in (Status.FIRST, Status.RESTARTED))
        if self.steps and status is not Status.RESTARTED:
            self._velocity = log(inverse(self.steps[-1].T_world_scan) @ T) / elapsed
        self._missed, self.field = 0, field
        velocity = self._velocity if "time" in cloud.fields and self.steps else None
        self.steps.append(Step(len(self.steps), scan.stamp, T, status, note, len(cloud), found, seconds, velocity))
        return self.steps[-1]

    def still(self, scan: Scan) -> Scan:
        """All returns of the latest scan within range, with their fields, moved to its stamp if it was deskewed."""
        scan = self._point_times(self._within(scan), self.period)
        return deskew_scan(scan, self._velocity) if "time" in scan.fields else scan

    # --- a scan ------------------------------------------------------------------------------------------------------

    def _within(self, scan: Scan) -> Scan:
        """The returns within range. Marks of no return, zero or not finite, are none."""
        reach = np.einsum("ij,ij->i", scan.points, scan.points, dtype=np.float64)
        kept = (reach >= self.config.min_range**2) & (reach <= self.config.max_range**2) & (reach > 0.0)  # false for NaN
        return scan if kept.all() else scan.select(kept)

    def _prepare(self, scan: Scan) -> Scan:
        """Downsample to one point per voxel, each with the time of one of its returns if deskewing."""
        scan = self._within(scan)
        if not len(scan):
            return scan
        scan = self._point_times(scan, self.period)
        self.voxel = self.voxel or _choose_voxel(scan.points)
        cloud = voxel_means(scan.keep(*({"time"} & set(scan.fields))), self.voxel)
        if not self.config.voxel:
            # Surfaces lose points with the square of the voxel size. Small steps, so that scans match the map they are added to.
            change = float(np.clip(np.sqrt(len(cloud) / tuned.WANTED), 1.0 / tuned.VOXEL_STEP, tuned.VOXEL_STEP))
            self.voxel = float(np.clip(self.voxel * change, *tuned.VOXELS))
        return cloud

    def _estimate(self, points: np.ndarray) -> Ellipsoids:
        k = tuned.PCA_NEIGHBORS if self.config.model == PCA else None
        up = UP if self.config.upright else None
        return estimate(points, model=self.config.model, up=up, warn=False, k=k)

    def _elapsed(self, scan: Scan) -> tuple[float, int]:
        """Return the time since the last scan, in the unit of the velocity, and how many scans seem to be missing in between."""
        last = self.steps[-1].stamp if self.steps else None
        if last is None or scan.stamp is None:
            return self.period, 0
        seconds = (scan.stamp - last) * 1e-9
        if seconds <= 0.0:
            raise InputError(
                f"scan {len(self.steps)} has the stamp {scan.stamp}, not later than the previous one, {last}; sort the scans"
            )
        usual = float(np.median(self._periods)) if self._periods else seconds
        self._periods = [*self._periods[1 - tuned.USUAL :], seconds]
        return seconds, round(seconds / usual) - 1 if seconds > tuned.GAP * usual else 0

    def _deskew_first(self, first: Scan, found: Alignment, elapsed: float) -> np.ndarray:  # (4, 4)
        """Deskew the first scan once its motion is known, and restart with it; otherwise deskewed scans would be aligned to a
        skewed one. The pose between two equally skewed scans is accurate enough to start from."""
        self._velocity = log(found.T_target_source) / elapsed
        field = self._estimate(_means(first, self._velocity))
        self._remember(field, self.config.gicp.metric(field), np.eye(4), fresh=True)
        return found.T_target_source

    # --- its pose ----------------------------------------------------------------------------------------------------

    def _locate(
        self, cloud: Scan, T_expected: np.ndarray, elapsed: float, seconds: dict[str, float]
    ) -> tuple[Ellipsoids, WeightedPoints, Alignment | None]:
        with _clock(seconds, "estimate"):
            field = self._estimate(_means(cloud, self._velocity))
        with _clock(seconds, "map"):  # the last scan's update, if it is not done yet
            target = self._local_map.target
        with _clock(seconds, "align"):
            weighed = self.config.gicp.metric(field)
            if target is None:
                return field, weighed, None
            sweep = None
            if "time" in cloud.fields and self._first is None:
                T_target_before = inverse(self._local_map.T_world_target) @ self.steps[-1].T_world_scan
                points, times = cloud.points.astype(np.float64), np.asarray(cloud.fields["time"], np.float64)
                sweep = Sweep(points, times, T_target_before, elapsed)
            found = self._align(weighed, target, T_expected, sweep)
            if sweep is not None:
                means = sweep.means(found.T_target_source)
                field = Ellipsoids.trusted(means, field.covariances, field.viewpoint)
                weighed = replace(weighed, means=means)
            return field, weighed, found

    def _align(self, source: WeightedPoints, target: Target, T_expected: np.ndarray, sweep: Sweep | None) -> Alignment:
        """Align from the predicted pose. If the scan does not fit there, search more widely, also from the last pose."""
        to_target = inverse(self._local_map.T_world_target)
        config = self.config.gicp
        found = align(source, target, nearest_rotation(to_target @ T_expected), config, sweep)
        if self._fits_well(found):
            return found
        wide = replace(config, start=max(config.start, tuned.WIDER), max_distance=max(config.max_distance, 2.0 * tuned.WIDER))
        guesses = (T_expected, self.steps[-1].T_world_scan)
        others = [align(source, target, nearest_rotation(to_target @ T), wide, sweep) for T in guesses]
        return max([found, *others], key=lambda alignment: alignment.fit)

    def _fits_well(self, found: Alignment) -> bool:
        usual = float(np.median(self._fits)) if self._fits else 0.0
        return found.fit >= max(tuned.FITS_AT_LEAST, tuned.FITS * usual)

    def _judge(self, found: Alignment | None, gap: int) -> tuple[Status, str]:
        missing = f"{gap} scans seem to be missing before it" if gap else ""
        if found is None:
            return Status.RESTARTED, "there is no map to align it to"
        if not self._fits_well(found):
            why = f"only {100 * found.fit:.0f} % of its points lie on surfaces seen before"
            return Status.RESTARTED, f"{why}; {missing}" if missing else why
        if found.degeneracy.any:
            return Status.DEGENERATE, f"{found.degeneracy}; {missing}" if missing else str(found.degeneracy)
        return (Status.BRIDGED, missing) if gap else (Status.TRACKED, "")

    def _predict(self, scan: Scan, T_expected: np.ndarray, why: str, points: int, seconds: dict[str, float]) -> Step:
        if not self.steps or self._local_map.target is None:
            raise InputError(f"scan {len(self.steps)}: {why}; the first scan needs at least {tuned.LEAST} points")
        self._missed, self.field = self._missed + 1, None
        if self._missed > self.config.patience and self.config.on_loss == "stop":
            raise TrackingLost(len(self.steps), f"{why}, as in the {self._missed - 1} scans before it", self.poses)
        self.steps.append(Step(len(self.steps), scan.stamp, T_expected, Status.PREDICTED, why, points, None, seconds))
        return self.steps[-1]

    def _remember(self, field: Ellipsoids, weighed: WeightedPoints, T: np.ndarray, fresh: bool) -> None:
        unseen = bool(self._fits) and self._fits[-1] < tuned.SEEN * max(self._fits)
        self._local_map.remember(field, weighed, T, self.voxel, fresh, unseen)


@lists_options(OdometryConfig)
def odometry(
    scans: Iterable[ScanLike],  # (N, 3) each
    config: OdometryConfig | None = None,
    **options: Any,
) -> np.ndarray:  # (M, 4, 4)
    """Estimate T_world_scan of every scan; world is the frame of the first. `Odometer` does the same scan by scan, with details.

    Raises `TrackingLost` if a scan cannot be localized; the error contains the poses before it.

    Args:
        scans: scans in order, such as a `poli.dataset`.
        config: the options as one object. Keywords override its fields.
        gicp: options of the alignment.
    """
    odometer = Odometer(configured(OdometryConfig, config, options))
    for scan in scans:
        odometer.add(scan)
    return odometer.poses


def _means(cloud: Scan, velocity: np.ndarray) -> np.ndarray:  # (6,) -> (N, 3)
    """The points of a scan at its stamp, for this velocity."""
    points = cloud.points.astype(np.float64)
    return at_stamp(points, np.asarray(cloud.fields["time"], np.float64), velocity) if "time" in cloud.fields else points


def _choose_voxel(points: np.ndarray) -> float:  # (N, 3)
    """Return the voxel size that leaves about `tuned.WANTED` points, to two digits."""
    low, high = tuned.VOXELS
    if len(points) <= tuned.WANTED:
        return low
    for _ in range(7):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if len(voxel_numbers(points, middle)[1]) > tuned.WANTED else (low, middle)
    return float(f"{high:.2g}")


@contextmanager
def _clock(seconds: dict[str, float], stage: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - begin
