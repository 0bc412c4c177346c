"""Relative pose errors (RPE): errors of the motion between two poses of a trajectory, the measure of odometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from poli.errors import InputError
from poli.tasks.trajectory_errors.pose_errors import (
    PoseErrors,
    check_trajectories,
    motions_between,
    path_lengths,
    rotation_degrees,
    steps,
)
from poli.validation import real_number, whole_number


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
