"""Errors of a trajectory against ground truth: relative (RPE), absolute (APE), and KITTI segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from poli.errors import DegenerateError, InputError
from poli.options import real_array, real_number, whole_number
from poli.se3 import inverse, vee

__all__ = [
    "KITTI_LENGTHS", "AbsoluteErrors", "RelativeErrors", "SegmentErrors", "absolute_errors", "relative_errors", "segment_errors",
    "umeyama",
]  # fmt: skip


# --- Common parts of the trajectory errors: input checks, motions between poses, and error statistics.
#
# A trajectory is (M, 4, 4): T_world_scan of every scan, in order.


_RIGID = 1e-4  # tolerance for orthonormal rotations, as in `se3.check_pose`; float32 gives 1e-7


class TranslationRotation(NamedTuple):
    """A statistic of the translation errors and of the rotation errors."""

    translation: float
    rotation: float


@dataclass(frozen=True, eq=False)
class PoseErrors:
    """Errors with their statistics, which are NaN if there are no errors. `std` divides by the count, as in evo."""

    translation: np.ndarray  # (K,) meters, unless the subclass says otherwise
    rotation: np.ndarray  # (K,) degrees, unless the subclass says otherwise

    @property
    def count(self) -> int:
        return len(self.translation)

    @property
    def rmse(self) -> TranslationRotation:
        return self._both(lambda errors: np.sqrt(np.mean(errors**2)))

    @property
    def mean(self) -> TranslationRotation:
        return self._both(np.mean)

    @property
    def median(self) -> TranslationRotation:
        return self._both(np.median)

    @property
    def std(self) -> TranslationRotation:
        return self._both(np.std)

    @property
    def max(self) -> TranslationRotation:
        return self._both(np.max)

    def _both(self, statistic: Callable[[np.ndarray], Any]) -> TranslationRotation:
        if not self.count:  # numpy would warn, or raise
            return TranslationRotation(np.nan, np.nan)
        return TranslationRotation(float(statistic(self.translation)), float(statistic(self.rotation)))


def check_trajectories(estimated: Any, truth: Any) -> tuple[np.ndarray, np.ndarray]:  # (M, 4, 4), (M, 4, 4)
    """Return both as float64 trajectories of the same length. Raise InputError if one is invalid."""
    estimated, truth = _check_trajectory(estimated, "estimated"), _check_trajectory(truth, "truth")
    if len(estimated) != len(truth):
        raise InputError(f"estimated has {len(estimated)} poses and truth has {len(truth)}; give both for the same scans")
    return estimated, truth


def motions_between(start: np.ndarray, end: np.ndarray) -> np.ndarray:  # (K, 4, 4), (K, 4, 4) -> (K, 4, 4)
    """Return start^-1 end, row by row. Positions are subtracted before they are rotated, for accuracy far from the origin."""
    R_t = np.swapaxes(start[:, :3, :3], 1, 2)
    motions = np.tile(np.eye(4), (len(start), 1, 1))
    motions[:, :3, :3] = R_t @ end[:, :3, :3]
    motions[:, :3, 3] = (R_t @ (end[:, :3, 3] - start[:, :3, 3])[:, :, None])[:, :, 0]
    return motions


def rotation_degrees(R: np.ndarray) -> np.ndarray:  # (K, 3, 3) -> (K,)
    """Return the angles of rotations. Uses sine and cosine, because the cosine alone is inaccurate for small angles."""
    sine = np.linalg.norm(vee(R), axis=1)
    cosine = 0.5 * (np.trace(R, axis1=1, axis2=2) - 1.0)
    return np.rad2deg(np.arctan2(sine, cosine))


def path_lengths(poses: np.ndarray) -> np.ndarray:  # (M, 4, 4) -> (M,)
    """Return the meters traveled up to each pose."""
    return np.concatenate([[0.0], np.cumsum(steps(poses))])


def steps(poses: np.ndarray) -> np.ndarray:  # (M, 4, 4) -> (M - 1,)
    """Return the meters from each pose to the next."""
    return np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1)


def _check_trajectory(poses: Any, name: str) -> np.ndarray:  # (M, 4, 4)
    poses = real_array(poses, name)
    if poses.ndim != 3 or poses.shape[1:] != (4, 4):
        raise InputError(f"{name} has shape {poses.shape}; expected (M, 4, 4), one pose T_world_scan per scan")
    if len(poses) < 2:
        raise InputError(f"{name} has {len(poses)} poses; at least 2 are needed")
    bad = np.flatnonzero(~np.isfinite(poses).all(axis=(1, 2)))
    if len(bad):
        raise InputError(f"{name}[{bad[0]}] has a non-finite entry; remove such poses from both trajectories")
    R = poses[:, :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):  # huge entries are not rotations either
        off = np.abs(np.swapaxes(R, 1, 2) @ R - np.eye(3)).max(axis=(1, 2))
        rigid = (off <= _RIGID) & (np.linalg.det(R) > 0) & (np.abs(poses[:, 3] - [0, 0, 0, 1]).max(axis=1) <= 1e-6)
    bad = np.flatnonzero(~rigid)
    if len(bad):
        raise InputError(
            f"{name}[{bad[0]}] is not a rigid motion: the rotation must be orthonormal with determinant +1, the last row 0 0 0 1"
        )
    return poses


# --- Absolute pose errors (APE) of a trajectory against ground truth, after alignment.


# Points are on a line if the second singular value of their covariance, relative to the first, is below this. Rounding errors give
# 1e-16, a margin of 10,000. Two curves of 100 m that bend by 0.1 mm give 1e-12.
_LINE = 1e-12


@dataclass(frozen=True, eq=False)
class AbsoluteErrors(PoseErrors):
    """Errors of each pose in meters and degrees. A pose (R, t) was compared as T (R, scale t)."""

    T: np.ndarray  # (4, 4) from the scaled world frame of the estimate to that of the truth
    scale: float


def absolute_errors(
    estimated: np.ndarray,  # (M, 4, 4)
    truth: np.ndarray,  # (M, 4, 4)
    align: Literal["none", "origin", "umeyama", "umeyama-scale"] = "none",
) -> AbsoluteErrors:
    """Return the APE after aligning nothing, the first pose, the best rigid motion, or the best rigid motion and scale."""
    estimated, truth = check_trajectories(estimated, truth)
    T, scale = np.eye(4), 1.0
    if align == "origin":
        T = truth[0] @ inverse(estimated[0])
    elif align in ("umeyama", "umeyama-scale"):
        T, scale = umeyama(estimated[:, :3, 3], truth[:, :3, 3], with_scale=align == "umeyama-scale")
    elif align != "none":
        raise InputError(f'align is {align!r}; expected "none", "origin", "umeyama" or "umeyama-scale"')
    aligned = estimated.copy()
    aligned[:, :3, 3] *= scale
    errors = motions_between(truth, T @ aligned)
    return AbsoluteErrors(np.linalg.norm(errors[:, :3, 3], axis=1), rotation_degrees(errors[:, :3, :3]), T, scale)


def umeyama(
    source_points: np.ndarray,  # (N, 3)
    target_points: np.ndarray,  # (N, 3)
    with_scale: bool = False,
) -> tuple[np.ndarray, float]:  # (4, 4), scale
    """Return the rigid T and the scale (1 unless `with_scale`) that minimize sum |q - T (scale p)|^2 (Umeyama, PAMI 1991)."""
    source, target = _check_points(source_points, "source_points"), _check_points(target_points, "target_points")
    if len(source) != len(target):
        raise InputError(f"{len(source)} source_points but {len(target)} target_points; expected the same number")
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    source_offsets, target_offsets = source - source_mean, target - target_mean
    u, stretch, vt = np.linalg.svd(target_offsets.T @ source_offsets / len(source))
    if stretch[1] <= _LINE * stretch[0]:
        raise DegenerateError(
            "all source_points or all target_points are on one line or coincide, so the rotation about it is undetermined; "
            'align a straight trajectory at its first pose (align="origin")'
        )
    # If a reflection fits best, the last sign changes it to the best rotation.
    signs = np.array([1.0, 1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    T = np.eye(4)
    T[:3, :3] = (u * signs) @ vt
    scale = float(stretch @ signs / np.mean(np.sum(source_offsets**2, axis=1))) if with_scale else 1.0
    T[:3, 3] = target_mean - scale * T[:3, :3] @ source_mean
    return T, scale


def _check_points(points: Any, name: str) -> np.ndarray:  # (N, 3)
    points = real_array(points, name)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points):
        raise InputError(f"{name} has shape {points.shape}; expected (N, 3) with at least one point")
    if not np.isfinite(points).all():
        raise InputError(f"{name} has a non-finite entry; remove such points from both sides")
    return points


# --- Relative pose errors (RPE): errors of the motion between two poses of a trajectory, the measure of odometry.


@dataclass(frozen=True, eq=False)
class RelativeErrors(PoseErrors):
    """Errors of each pair of poses in meters and degrees."""

    rows: np.ndarray  # (K, 2) first and last pose


def relative_errors(
    estimated: np.ndarray,  # (M, 4, 4)
    truth: np.ndarray,  # (M, 4, 4)
    delta: float = 1,
    unit: Literal["frames", "meters"] = "frames",
    pairs: Literal["consecutive", "all"] = "consecutive",
    tolerance: float = 0.1,
) -> RelativeErrors:
    """Return the RPE (Sturm et al., IROS 2012), E = (Q_i^-1 Q_j)^-1 (P_i^-1 P_j) with Q the truth, for the same pairs as evo.

    The poses of a pair are `delta` frames apart, or `delta` meters along the estimated path. With "consecutive", each pair begins
    where the previous one ended, and in meters ends at the first pose at least `delta` away. With "all", every pose begins a pair;
    in meters it ends at the pose closest to `delta`, and is left out if it misses by more than the fraction `tolerance` of `delta`.
    """
    estimated, truth = check_trajectories(estimated, truth)
    if pairs not in ("consecutive", "all"):
        raise InputError(f'pairs is {pairs!r}; expected "consecutive" or "all"')
    if unit == "frames":
        rows = _pairs_by_frames(len(estimated), whole_number(delta, "delta", 1), pairs == "all")
    elif unit == "meters":
        apart = real_number(delta, "delta", "a positive number of meters", above=True)
        share = real_number(tolerance, "tolerance", "a fraction of delta, at least 0")
        if pairs == "all":
            rows = _all_pairs_by_path(path_lengths(estimated), apart, share)
        else:
            rows = _pairs_by_path(steps(estimated), apart)
    else:
        raise InputError(f'unit is {unit!r}; expected "frames" or "meters"')
    first, last = rows.T
    errors = motions_between(motions_between(truth[first], truth[last]), motions_between(estimated[first], estimated[last]))
    return RelativeErrors(np.linalg.norm(errors[:, :3, 3], axis=1), rotation_degrees(errors[:, :3, :3]), rows)


def _pairs_by_frames(count: int, delta: int, every: bool) -> np.ndarray:  # (K, 2)
    first = np.arange(0, max(count - delta, 0), 1 if every else delta)
    return np.stack([first, first + delta], axis=1)


def _pairs_by_path(step_lengths: np.ndarray, delta: float) -> np.ndarray:  # (M - 1,) -> (K, 2)
    # Restart the sum at every cut, as evo does: differences of one long sum round differently, and steps often divide delta.
    cuts, traveled = [0], 0.0
    for row, length in enumerate(step_lengths.tolist(), start=1):
        traveled += length
        if traveled >= delta:
            cuts.append(row)
            traveled = 0.0
    return np.stack([cuts[:-1], cuts[1:]], axis=1).astype(np.intp)


def _all_pairs_by_path(traveled: np.ndarray, delta: float, tolerance: float) -> np.ndarray:  # (M,) -> (K, 2)
    rows = []
    for first in range(len(traveled) - 1):
        misses = np.abs(traveled[first + 1 :] - traveled[first] - delta)
        nearest = int(misses.argmin())
        if misses[nearest] <= delta * tolerance:
            rows.append((first, first + 1 + nearest))
    return np.array(rows, np.intp).reshape(-1, 2)


# --- KITTI's odometry metric: errors over segments of the path, relative to their length (Geiger et al., CVPR 2012).


KITTI_LENGTHS = (100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0)  # meters


@dataclass(frozen=True)
class LengthErrors:
    """Mean errors of the segments of one length."""

    length: float  # meters
    translation: float  # percent
    rotation: float  # degrees per 100 m
    count: int


@dataclass(frozen=True, eq=False)
class SegmentErrors(PoseErrors):
    """Errors of each segment: `translation` in percent and `rotation` in degrees per 100 m. KITTI ranks by `mean`."""

    rows: np.ndarray  # (K, 2) first and last pose
    lengths: np.ndarray  # (K,) meters

    @property
    def by_length(self) -> tuple[LengthErrors, ...]:
        """Mean errors for each length that has segments, shortest first."""
        lines = []
        for length in np.unique(self.lengths):
            of_length = self.lengths == length
            translation, rotation = self.translation[of_length].mean(), self.rotation[of_length].mean()
            lines.append(LengthErrors(float(length), float(translation), float(rotation), int(of_length.sum())))
        return tuple(lines)


def segment_errors(
    estimated: np.ndarray,  # (M, 4, 4)
    truth: np.ndarray,  # (M, 4, 4)
    lengths: Sequence[float] = KITTI_LENGTHS,
    step: int = 10,
) -> SegmentErrors:
    """Return KITTI's segment errors. Segments begin at every `step`-th pose and end at the first pose more than a length away.

    Lengths are along the true path. Segments that do not fit are left out; if none fit, `count` is 0 and the means are NaN.
    """
    estimated, truth = check_trajectories(estimated, truth)
    meters = real_array(lengths, "lengths")
    if meters.ndim != 1 or not len(meters) or not (np.isfinite(meters) & (meters > 0)).all():
        raise InputError(f"lengths is {lengths!r}; expected one or more positive numbers of meters")
    traveled = path_lengths(truth)
    starts = np.arange(0, len(truth), whole_number(step, "step", 1))
    ends = np.searchsorted(traveled, traveled[starts, None] + meters, side="right")  # (starts, lengths)
    start_row, length_row = np.nonzero(ends < len(truth))
    first, last, length = starts[start_row], ends[start_row, length_row], meters[length_row]
    errors = motions_between(motions_between(truth[first], truth[last]), motions_between(estimated[first], estimated[last]))
    return SegmentErrors(
        translation=100.0 * np.linalg.norm(errors[:, :3, 3], axis=1) / length,
        rotation=100.0 * rotation_degrees(errors[:, :3, :3]) / length,
        rows=np.stack([first, last], axis=1),
        lengths=length,
    )
