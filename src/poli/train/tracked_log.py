"""Training pairs from recordings, with poses and covariances from odometry or from the dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from poli.configs import LEAST_PAIRS
from poli.errors import FormatError, InputError
from poli.io.datasets import Dataset, dataset
from poli.lidar_odometry import Odometer, OdometryConfig, Step, deskew
from poli.options import real_array
from poli.scan import Scan
from poli.se3 import adjoint, inverse
from poli.train.config import DatasetConfig, ScanConfig
from poli.worlds.scan_pairs import ScanPair

Rows: TypeAlias = tuple[int, int]  # of Q and P
_FARTHEST_ON = 5  # maximum number of scans from one to its partner
_LEAST_POINTS = 64  # of a scan used for training
_STANDING = 0.02  # meters between scans: a standing sensor hits the same spots again, and all surfaces seem thin
_HELD_OUT = 0.2  # the last fraction of the pairs
# Errors that the covariances of odometry do not include (motion within a scan, beam timing): one sigma per axis.
_ROTATION_FLOOR = math.radians(0.02)
_TRANSLATION_FLOOR = 0.003  # meters
_LAYOUTS = {  # what a folder must contain
    "kitti": "sequences/NN/velodyne/*.bin, sequences/NN/calib.txt and poses/NN.txt",
    "helipr": "SEQUENCE/LiDAR/Velodyne/*.bin (or Ouster) and SEQUENCE/LiDAR_GT/Velodyne_gt.txt (or global_Velodyne_gt.txt)",
    "mulran": "SEQUENCE/Ouster/*.bin and SEQUENCE/global_pose.csv",
}


@dataclass(frozen=True, eq=False)
class TrackedLog:
    """Scans in their own frames, with the results of odometry."""

    name: str
    scans: Sequence[Scan]  # M scans, read on demand
    poses: np.ndarray  # (M, 4, 4) T_world_scan
    covariances: np.ndarray  # (M, 6, 6) of the tangents (rotation, translation) of T_world_scan Exp(xi)
    trusted: np.ndarray  # (M,) bool

    @staticmethod
    def of(name: str, scans: Sequence[Scan], steps: Sequence[Step]) -> TrackedLog:
        """Return the log of scans whose odometry has taken these steps."""
        # The first scan defines the world frame, so its covariance is zero. Covariances of untrusted scans are not used.
        covariances = [
            step.alignment.covariance if step.trusted and step.alignment is not None else np.zeros((6, 6)) for step in steps
        ]
        poses = np.array([step.T_world_scan for step in steps]).reshape(-1, 4, 4)
        return TrackedLog(
            name, scans, poses, np.array(covariances).reshape(-1, 6, 6), np.array([step.trusted for step in steps], bool)
        )

    def __post_init__(self) -> None:
        count = len(self.scans)
        for name, shape in (("poses", (count, 4, 4)), ("covariances", (count, 6, 6)), ("trusted", (count,))):
            values = np.asarray(getattr(self, name), bool) if name == "trusted" else real_array(getattr(self, name), name)
            if values.shape != shape:
                raise InputError(f"{self.name}: {name} have shape {values.shape}; {count} scans need {shape}")
            if not np.isfinite(values).all():
                raise InputError(f"{self.name}: {name} have a non-finite entry; mark such scans as not trusted and give zeros")
            object.__setattr__(self, name, values)

    @property
    def steps(self) -> np.ndarray:  # (K,)
        """Rows of the trusted scans whose next scan is trusted, and between which the sensor moved."""
        return np.flatnonzero(self.trusted[:-1] & self.trusted[1:] & (self._moves >= _STANDING))

    @property
    def meters(self) -> float:
        """Distance driven in those steps."""
        return float(self._moves[self.steps].sum())

    @property
    def _moves(self) -> np.ndarray:  # (M - 1,)
        return np.linalg.norm(np.diff(self.poses[:, :3, 3], axis=0), axis=1)

    def pairs(self, max_scans: int, reach: float) -> tuple[list[ScanPair], list[ScanPair]]:
        """Return training pairs, in both directions, and held-out pairs of consecutive scans of the log's last fifth.

        No scan is in both. At most `max_scans` scans, evenly spaced, start a pair. Their partners are the next scan and those of
        the four after it within `reach` meters: pairs with little motion alone say too little about views from elsewhere.
        """
        learned, held_out = self.rows(max_scans, reach)
        return list(self.read(learned).values()), list(self.read(held_out).values())

    def rows(self, max_scans: int, reach: float) -> tuple[list[Rows], list[Rows]]:
        """Return the rows (q, p) of the pairs that `pairs` reads."""
        steps = self.steps
        if len(steps) < LEAST_PAIRS:
            raise InputError(
                f"{self.name}: odometry trusts {len(steps)} pairs of consecutive scans in motion, of {len(self.scans)} scans; "
                f"{LEAST_PAIRS} are needed: use a longer log, drop returns of the vehicle (--min-range), or try another --voxel"
            )
        steps = steps[np.unique(np.linspace(0, len(steps) - 1, min(max_scans, len(steps))).round().astype(int))]
        count = round(_HELD_OUT * len(steps))
        first = int(steps[-count])
        chosen = [(int(q), p) for q in steps[:-count] for p in self._partners(int(q), reach) if p < first]
        return [both for q, p in chosen for both in ((q, p), (p, q))], [(int(q), int(q) + 1) for q in steps[-count:]]

    def read(self, rows: Sequence[Rows]) -> dict[Rows, ScanPair]:
        """Read pairs of scans, each scan once; those with few points are left out."""
        scans = {row: self.scans[row].clean().keep() for row in dict.fromkeys(row for both in rows for row in both)}
        pairs: dict[Rows, ScanPair] = {}
        for q, p in rows:
            if min(len(scans[q]), len(scans[p])) >= _LEAST_POINTS:
                T_q_p, gamma = relative_pose(self.poses[q], self.poses[p], self.covariances[q], self.covariances[p])
                pairs[q, p] = ScanPair(scans[q], scans[p], T_q_p, covariance=gamma)
        if not pairs:
            raise InputError(f"{self.name}: too few scans have {_LEAST_POINTS} points; check the data and --min-range")
        return pairs

    def _partners(self, q: int, reach: float) -> Iterator[int]:
        for p in range(q + 1, min(q + _FARTHEST_ON, len(self.scans) - 1) + 1):
            if not self.trusted[p]:  # later scans may be in another world frame
                return
            if p == q + 1 or np.linalg.norm(self.poses[p, :3, 3] - self.poses[q, :3, 3]) <= reach:
                yield p


def open_datasets(config: ScanConfig, folder: Path) -> Iterator[tuple[DatasetConfig, Dataset]]:
    """Open the sequences of the configuration under a folder; yield their settings and scans."""
    for settings in config.datasets:
        path = folder / settings.path
        if not path.exists() and Path(settings.path).exists():  # relative to the current folder
            path = Path(settings.path)
        expected = f"expected there: {_LAYOUTS[settings.kind]}" if settings.kind in _LAYOUTS else "choose a folder with scans"
        if not path.exists():
            raise FormatError(f"{path}: no such folder; {expected}; the folder above it is that of --data")
        options: dict[str, Any] = {"sensor": settings.sensor} if settings.sensor else {}
        for sequence in settings.sequences or (None,):
            chosen = options if sequence is None else {**options, "sequence": sequence}
            try:
                opened = dataset(settings.kind, path, **chosen)
            except (FormatError, InputError) as error:
                if settings.kind not in _LAYOUTS:
                    raise
                raise FormatError(f"{error}; {expected}") from None
            yield settings, opened


def relative_pose(
    T_world_q: np.ndarray,  # (4, 4)
    T_world_p: np.ndarray,  # (4, 4)
    covariance_q: np.ndarray,  # (6, 6)
    covariance_p: np.ndarray,  # (6, 6)
) -> tuple[np.ndarray, np.ndarray]:  # (4, 4), (6, 6)
    """Return T_q_p and its Gamma; errors of the scans are independent, and at least 0.02 degrees and 3 mm per axis."""
    T_q_p = inverse(T_world_q) @ T_world_p
    moved = adjoint(inverse(T_q_p))  # Exp(-a) T = T Exp(-Ad(T^-1) a)
    gamma = moved @ covariance_q @ moved.T + covariance_p
    gamma = gamma + np.diag([_ROTATION_FLOOR**2] * 3 + [_TRANSLATION_FLOOR**2] * 3)
    return T_q_p, 0.5 * (gamma + gamma.T)


def tracker(config: ScanConfig, show: Callable[[str, int, int], None]) -> Callable[[Dataset], TrackedLog]:
    """Return a function that runs odometry on a dataset; `show` receives its name, the scans done, and their number."""

    def run(opened: Dataset) -> TrackedLog:
        def counted(rows: range, name: str) -> Iterator[int]:
            for row in rows:
                yield row
                show(name, row + 1, len(rows))

        return track(opened, OdometryConfig(min_range=config.min_range, on_loss="restart"), counted)

    return run


def track(
    opened: Dataset,
    config: OdometryConfig,
    counting: Callable[[range, str], Iterator[int]],
    max_scans: int | None = None,
) -> TrackedLog:
    """Run odometry over a dataset; return the scans and their estimated poses. `counting` iterates and shows progress."""
    odometer = Odometer(config)
    count = len(opened) if max_scans is None else min(len(opened), max_scans)
    for number in counting(range(count), f"odometry of {opened.name}"):
        odometer.add(opened[number])
    scans = _Returns(opened, config.min_range, config.max_range, [step.velocity for step in odometer.steps])
    return TrackedLog.of(opened.name, scans, odometer.steps)


def log_of_poses(sequence: Dataset, config: ScanConfig) -> TrackedLog:
    """Return the log of a dataset's own poses, whose errors between two scans are the noise of the configuration."""
    if sequence.poses is None:
        raise InputError(
            f"{sequence.name}: this sequence has no poses; let odometry estimate them: `poli train` with scans.odometry = true"
        )
    each = 0.5 * np.array([math.radians(config.rotation_noise) ** 2] * 3 + [config.translation_noise**2] * 3)
    count = len(sequence)
    scans = _Returns(sequence, config.min_range, math.inf, [None] * count)
    poses = np.asarray(sequence.poses, np.float64)[:count]
    return TrackedLog(sequence.name, scans, poses, np.tile(np.diag(each), (count, 1, 1)), np.ones(count, bool))


class _Returns(Sequence[Scan]):
    """The scans of a dataset, read on access, cropped to a range, and deskewed where a velocity is known."""

    def __init__(self, opened: Dataset, min_range: float, max_range: float, velocities: Sequence[np.ndarray | None]) -> None:
        self._opened, self._min_range, self._max_range, self._velocities = opened, min_range, max_range, velocities

    def __len__(self) -> int:
        return len(self._velocities)

    def __getitem__(self, row):
        scan, velocity = self._opened[row].clean(), self._velocities[row]
        distance = np.linalg.norm(scan.points.astype(np.float64), axis=1)
        scan = scan.select((distance >= self._min_range) & (distance <= self._max_range))
        return scan if velocity is None else deskew(scan, velocity)
