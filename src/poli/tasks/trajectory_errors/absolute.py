"""Absolute pose errors: how far a trajectory is from the truth, after the two have been laid on each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from poli.errors import DegenerateError, InputError
from poli.se3 import inverse
from poli.tasks.trajectory_errors.pose_errors import PoseErrors, check_trajectories, motions_between, rotation_degrees
from poli.validation import real_array

# Second singular value of the points' covariance against the first, below which they lie on a line. Rounding leaves 1e-16 there:
# room by 10,000. Two curves of 100 m that bend by 0.1 mm come to 1e-12.
_LINE = 1e-12


@dataclass(frozen=True, eq=False)
class AbsoluteErrors(PoseErrors):
    """Meters and degrees of a pose each. A pose (R, t) was compared as T (R, scale t)."""

    T: np.ndarray  # (4, 4) from the world of the estimate, already scaled, to that of the truth
    scale: float


def absolute_errors(
    estimated: np.ndarray,  # (M, 4, 4)
    truth: np.ndarray,  # (M, 4, 4)
    align: Literal["none", "origin", "umeyama", "umeyama-scale"] = "none",
) -> AbsoluteErrors:
    """APE. `align` says what is no error: nothing, the first pose, any one rigid motion, or any motion and scale."""
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
    """The rigid T and the scale (1 unless `with_scale`) that minimize sum |q - T (scale p)|^2 (Umeyama, PAMI 1991)."""
    source, target = _check_points(source_points, "source_points"), _check_points(target_points, "target_points")
    if len(source) != len(target):
        raise InputError(f"source_points are {len(source)} and target_points are {len(target)}; give one target a source")
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    source_offsets, target_offsets = source - source_mean, target - target_mean
    u, stretch, vt = np.linalg.svd(target_offsets.T @ source_offsets / len(source))
    if stretch[1] <= _LINE * stretch[0]:
        raise DegenerateError(
            "source_points or target_points all lie on one line or in one place, so any turn about it fits as well; "
            'a straight trajectory can be aligned at its first pose (align="origin")'
        )
    # Where a mirror image would fit best, the last sign turns it into the best rotation.
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
        raise InputError(f"{name} has a non-finite entry; leave such points out, on both sides")
    return points
