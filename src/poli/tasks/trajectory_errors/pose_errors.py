"""Common parts of the trajectory errors: input checks, motions between poses, and error statistics.

A trajectory is (M, 4, 4): T_world_scan of every scan, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from poli.errors import InputError
from poli.se3 import vee
from poli.validation import real_array

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
