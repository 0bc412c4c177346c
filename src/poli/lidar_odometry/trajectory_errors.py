"""Errors of a trajectory against ground truth: relative (RPE), absolute (APE), and KITTI segments.

A trajectory is (M, 4, 4): T_world_scan of every scan, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from poli.errors import DegenerateError, InputError
from poli.options import real_array, real_number, whole_number
from poli.scan import points_of
from poli.se3 import check_pose, inverse, vee

__all__ = ["KITTI_LENGTHS", "PoseErrors", "absolute_errors", "relative_errors", "segment_errors", "umeyama"]

# Points are on a line if the second singular value of their covariance, relative to the first, is below this. Rounding errors give
# 1e-16, a margin of 10,000. Two curves of 100 m that bend by 0.1 mm give 1e-12.
_LINE = 1e-12
KITTI_LENGTHS = (100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0)  # meters


class TranslationRotation(NamedTuple):
    """A statistic of the translation errors and of the rotation errors."""

    translation: float
    rotation: float


@dataclass(frozen=True, eq=False)
class PoseErrors:
    """Errors with their statistics, which are NaN if there are no errors. `std` divides by the count, as in evo."""

    translation: np.ndarray  # (K,) meters; of segments, percent
    rotation: np.ndarray  # (K,) degrees; of segments, degrees per 100 m
    rows: np.ndarray  # (K, 2) first and last pose of the motion; of absolute errors, the pose itself twice

    @property
    def count(self) -> int:
        """The number of errors."""
        return len(self.translation)

    @property
    def rmse(self) -> TranslationRotation:
        """Root mean square."""
        return self._both(lambda errors: np.sqrt(np.mean(errors**2)))

    @property
    def mean(self) -> TranslationRotation:
        """Mean."""
        return self._both(np.mean)

    @property
    def median(self) -> TranslationRotation:
        """Median."""
        return self._both(np.median)

    @property
    def std(self) -> TranslationRotation:
        """Standard deviation."""
        return self._both(np.std)

    @property
    def max(self) -> TranslationRotation:
        """Largest error."""
        return self._both(np.max)

    def _both(self, statistic: Callable[[np.ndarray], Any]) -> TranslationRotation:
        if not self.count:  # numpy would warn, or raise
            return TranslationRotation(np.nan, np.nan)
        return TranslationRotation(float(statistic(self.translation)), float(statistic(self.rotation)))


def absolute_errors(
    estimated: np.ndarray,  # (M, 4, 4)
    truth: np.ndarray,  # (M, 4, 4)
    align: Literal["none", "origin", "umeyama"] = "none",
) -> PoseErrors:
    """Return the APE after aligning nothing, the first pose, or all positions by the best rigid motion."""
    estimated, truth = _check_trajectories(estimated, truth)
    T = np.eye(4)
    if align == "origin":
        T = truth[0] @ inverse(estimated[0])
    elif align == "umeyama":
        T = umeyama(estimated[:, :3, 3], truth[:, :3, 3])
    elif align != "none":
        raise InputError(f'align is {align!r}; expected "none", "origin" or "umeyama"')
    rows = np.tile(np.arange(len(truth))[:, None], 2)
    return PoseErrors(*_sizes(_motions(truth, T @ estimated)), rows)


def relative_errors(
    estimated: np.ndarray,  # (M, 4, 4)
    truth: np.ndarray,  # (M, 4, 4)
    delta: float = 1,
    unit: Literal["frames", "meters"] = "frames",
    pairs: Literal["consecutive", "all"] = "consecutive",
) -> PoseErrors:
    """Return the RPE (Sturm et al., IROS 2012), E = (Q_i^-1 Q_j)^-1 (P_i^-1 P_j) with Q the truth, for the same pairs as evo.

    The poses of a pair are `delta` frames apart, or the second is the first pose at least `delta` meters away along the estimated
    path. Each pair begins where the previous one ended. With "all", which is for frames only, every pose begins a pair.
    """
    estimated, truth = _check_trajectories(estimated, truth)
    if pairs not in ("consecutive", "all"):
        raise InputError(f'pairs is {pairs!r}; expected "consecutive" or "all"')
    if unit == "frames":
        frames = whole_number(delta, "delta", 1)
        first = np.arange(0, max(len(estimated) - frames, 0), 1 if pairs == "all" else frames)
        rows = np.stack([first, first + frames], axis=1)
    elif unit == "meters" and pairs == "consecutive":
        rows = _pairs_by_path(estimated, real_number(delta, "delta", "a positive number of meters", above=True))
    else:
        raise InputError(f'unit is {unit!r}; expected "frames", or "meters" for consecutive pairs')
    return PoseErrors(*_errors_between(estimated, truth, *rows.T), rows)


def _pairs_by_path(poses: np.ndarray, delta: float) -> np.ndarray:  # (M, 4, 4) -> (K, 2)
    # Restart the sum at every cut, as evo does: differences of one long sum round differently, and steps often divide delta.
    cuts, traveled = [0], 0.0
    for row, length in enumerate(_steps(poses).tolist(), start=1):
        traveled += length
        if traveled >= delta:
            cuts.append(row)
            traveled = 0.0
    return np.stack([cuts[:-1], cuts[1:]], axis=1).astype(np.intp)


def segment_errors(
    estimated: np.ndarray,  # (M, 4, 4)
    truth: np.ndarray,  # (M, 4, 4)
    lengths: Sequence[float] = KITTI_LENGTHS,
    step: int = 10,
) -> PoseErrors:
    """Return KITTI's odometry metric: errors over segments of the path, relative to their length (Geiger et al., CVPR 2012).

    KITTI ranks by `mean`. Segments begin at every `step`-th pose and end at the first pose more than a length away, along the true
    path. Segments that do not fit are left out; if none fit, `count` is 0 and the means are NaN.
    """
    estimated, truth = _check_trajectories(estimated, truth)
    meters = real_array(lengths, "lengths")
    if meters.ndim != 1 or not len(meters) or not (np.isfinite(meters) & (meters > 0)).all():
        raise InputError(f"lengths is {lengths!r}; expected one or more positive numbers of meters")
    traveled = path_lengths(truth)
    starts = np.arange(0, len(truth), whole_number(step, "step", 1))
    ends = np.searchsorted(traveled, traveled[starts, None] + meters, side="right")  # (starts, lengths)
    start_row, length_row = np.nonzero(ends < len(truth))
    first, last, length = starts[start_row], ends[start_row, length_row], meters[length_row]
    translation, rotation = _errors_between(estimated, truth, first, last)
    return PoseErrors(100.0 * translation / length, 100.0 * rotation / length, np.stack([first, last], axis=1))


def umeyama(source_points: np.ndarray, target_points: np.ndarray) -> np.ndarray:  # (N, 3), (N, 3) -> (4, 4)
    """Return the rigid T that minimizes sum |q - T p|^2 (Umeyama, PAMI 1991)."""
    source, target = points_of(source_points, "source_points"), points_of(target_points, "target_points")
    if len(source) != len(target):
        raise InputError(f"source_points has {len(source)} points and target_points has {len(target)}; give pairs")
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    u, stretch, vt = np.linalg.svd((target - target_mean).T @ (source - source_mean) / len(source))
    if stretch[1] <= _LINE * stretch[0]:
        raise DegenerateError(
            "all source_points or all target_points are on one line or coincide, so the rotation about it is undetermined; "
            'align a straight trajectory at its first pose (align="origin")'
        )
    # If a reflection fits best, the last sign changes it to the best rotation.
    signs = np.array([1.0, 1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    T = np.eye(4)
    T[:3, :3] = (u * signs) @ vt
    T[:3, 3] = target_mean - T[:3, :3] @ source_mean
    return T


def path_lengths(poses: np.ndarray) -> np.ndarray:  # (M, 4, 4) -> (M,)
    """Return the meters traveled up to each pose."""
    return np.concatenate([[0.0], np.cumsum(_steps(poses))])


def _steps(poses: np.ndarray) -> np.ndarray:  # (M, 4, 4) -> (M - 1,)
    """Return the meters from each pose to the next."""
    return np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1)


def _errors_between(
    estimated: np.ndarray, truth: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (M, 4, 4), (M, 4, 4), (K,), (K,) -> (K,), (K,)
    """Return the errors of the motions between poses, in meters and degrees."""
    return _sizes(_motions(_motions(truth[first], truth[last]), _motions(estimated[first], estimated[last])))


def _motions(start: np.ndarray, end: np.ndarray) -> np.ndarray:  # (K, 4, 4), (K, 4, 4) -> (K, 4, 4)
    """Return start^-1 end, row by row. Positions are subtracted before they are rotated, for accuracy far from the origin."""
    R_t = np.swapaxes(start[:, :3, :3], 1, 2)
    motions = np.tile(np.eye(4), (len(start), 1, 1))
    motions[:, :3, :3] = R_t @ end[:, :3, :3]
    motions[:, :3, 3] = (R_t @ (end[:, :3, 3] - start[:, :3, 3])[:, :, None])[:, :, 0]
    return motions


def _sizes(motions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (K, 4, 4) -> (K,), (K,)
    """Return the meters and degrees of motions. Uses sine and cosine, because the cosine alone is inaccurate for small angles."""
    R = motions[:, :3, :3]
    sine, cosine = np.linalg.norm(vee(R), axis=1), 0.5 * (np.trace(R, axis1=1, axis2=2) - 1.0)
    return np.linalg.norm(motions[:, :3, 3], axis=1), np.rad2deg(np.arctan2(sine, cosine))


def _check_trajectories(estimated: Any, truth: Any) -> tuple[np.ndarray, np.ndarray]:  # (M, 4, 4), (M, 4, 4)
    """Return both as float64 trajectories of the same length. Raise InputError if one is invalid."""
    estimated, truth = _check_trajectory(estimated, "estimated"), _check_trajectory(truth, "truth")
    if len(estimated) != len(truth):
        raise InputError(f"estimated has {len(estimated)} poses and truth has {len(truth)}; give both for the same scans")
    return estimated, truth


def _check_trajectory(poses: Any, name: str) -> np.ndarray:  # (M, 4, 4)
    poses = real_array(poses, name)
    if poses.ndim != 3 or poses.shape[1:] != (4, 4) or len(poses) < 2:
        raise InputError(f"{name} has shape {poses.shape}; expected (M, 4, 4), T_world_scan of at least 2 scans")
    R = poses[:, :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):  # huge entries are not rotations either
        off = np.abs(np.swapaxes(R, 1, 2) @ R - np.eye(3)).max(axis=(1, 2)) + np.abs(poses[:, 3] - [0, 0, 0, 1]).max(axis=1)
        sound = (off < 1e-6) & (np.linalg.det(R) > 0) & np.isfinite(poses).all(axis=(1, 2))
        for row in np.flatnonzero(~sound):  # all at once is faster; this says what is wrong
            check_pose(poses[row], f"{name}[{row}]")
    return poses
