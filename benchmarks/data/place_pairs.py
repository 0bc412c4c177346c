"""Pairs of scans of one place, a few meters apart and rotated at random, to evaluate global registration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poli.errors import InputError
from poli.se3 import inverse


@dataclass(frozen=True, eq=False)
class PlacePair:
    """Indices of two scans of a drive. The source is rotated by `T_turned_source` before registration."""

    source: int
    target: int
    T_turned_source: np.ndarray  # (4, 4)
    T_target_turned: np.ndarray  # (4, 4): the pose to estimate

    @property
    def T_target_source(self) -> np.ndarray:  # (4, 4)
        return self.T_target_turned @ self.T_turned_source


def place_pairs(poses: np.ndarray, count: int, most: float, seed: int) -> list[PlacePair]:  # (M, 4, 4)
    """Draw `count` pairs of different scans, uniformly among all at most `most` meters apart; headings differ by any angle."""
    counts = np.array([len(_near(poses, row, most)) for row in range(len(poses))])  # one row at a time: sequences have thousands
    if not counts.sum():
        raise InputError(f"no two of {len(poses)} scans are at most {most:g} m apart")
    generator = np.random.default_rng(seed)
    ends = np.cumsum(counts)
    pairs = []
    for number in generator.choice(ends[-1], min(count, int(ends[-1])), replace=False):
        source = int(np.searchsorted(ends, number, side="right"))
        target = _near(poses, source, most)[number - ends[source]]
        pairs.append(_pair(poses, source, int(target), generator.uniform(-np.pi, np.pi)))
    return pairs


def success(rotations: Sequence[float], translations: Sequence[float], degrees: float, meters: float) -> float:
    """Share of poses within both limits."""
    return float(((np.asarray(rotations) <= degrees) & (np.asarray(translations) <= meters)).mean())


def _near(poses: np.ndarray, row: int, most: float) -> np.ndarray:  # (M, 4, 4) -> (K,) rows
    """The other scans at most `most` meters from one."""
    near = np.linalg.norm(poses[:, :3, 3] - poses[row, :3, 3], axis=1) <= most
    near[row] = False
    return np.flatnonzero(near)


def _pair(poses: np.ndarray, source: int, target: int, angle: float) -> PlacePair:
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return PlacePair(source, target, turn, inverse(poses[target]) @ poses[source] @ inverse(turn))
