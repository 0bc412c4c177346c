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


def place_pairs(poses: np.ndarray, count: int, most: float, seed: int) -> list[PlacePair]:  # (M, 4, 4)
    """Draw `count` pairs of different scans, uniformly among all at most `most` meters apart; headings differ by any angle."""
    where = poses[:, :3, 3]
    apart = np.linalg.norm(where[:, None] - where[None], axis=2)
    every = np.argwhere((apart <= most) & ~np.eye(len(poses), dtype=bool))
    if not len(every):
        raise InputError(f"no two of {len(poses)} scans are at most {most:g} m apart")
    generator = np.random.default_rng(seed)
    chosen = every[generator.choice(len(every), min(count, len(every)), replace=False)]
    return [_pair(poses, int(source), int(target), generator.uniform(-np.pi, np.pi)) for source, target in chosen]


def success(rotations: Sequence[float], translations: Sequence[float], degrees: float, meters: float) -> float:
    """Share of poses within both limits."""
    return float(((np.asarray(rotations) <= degrees) & (np.asarray(translations) <= meters)).mean())


def _pair(poses: np.ndarray, source: int, target: int, angle: float) -> PlacePair:
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return PlacePair(source, target, turn, inverse(poses[target]) @ poses[source] @ inverse(turn))
