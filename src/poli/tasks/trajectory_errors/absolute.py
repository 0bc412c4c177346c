"""Absolute pose errors (APE) of a trajectory against ground truth, after alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from poli.errors import DegenerateError, InputError
from poli.se3 import inverse
from poli.tasks.trajectory_errors.pose_errors import PoseErrors, check_trajectories, motions_between, rotation_degrees
from poli.validation import real_array

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
