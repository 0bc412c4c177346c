"""Pairs of scans of one place, a few meters apart and rotated at random, to evaluate global registration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.data.drives import RecordedDrive, SimulatedDrive
from benchmarks.data.rings import nearest_ring
from poli.data.simulate import find_spinning
from poli.errors import InputError
from poli.se3 import inverse


@dataclass(frozen=True)
class ThinnedDrive(SimulatedDrive):
    """A simulated drive with only every second, fourth, ... ring of its sensor."""

    beams: int = 16

    def open(self) -> RecordedDrive:
        drive = super().open()
        rings = np.array(find_spinning(self.sensor).elevations)
        if len(rings) % self.beams:
            raise InputError(f"beams is {self.beams}; expected a divisor of the {len(rings)} rings of {self.sensor}")
        step = len(rings) // self.beams
        scans = [points[nearest_ring(points, rings) % step == 0] for points in drive.scans]
        return replace(drive, name=f"{drive.name}, {self.beams} beams", scans=scans, rings=None)


@dataclass(frozen=True, eq=False)
class PlacePair:
    """Indices of two scans of a drive. The source is rotated by `T_turned_source` before registration."""

    source: int
    target: int
    T_turned_source: np.ndarray  # (4, 4)
    T_target_turned: np.ndarray  # (4, 4): the pose to estimate


def place_pairs(poses: np.ndarray, count: int, most: float, seed: int, least: float = 0.0) -> list[PlacePair]:  # (M, 4, 4)
    """Draw `count` pairs of different scans, uniformly among all `least` to `most` meters apart; headings differ by any angle."""
    where = poses[:, :3, 3]
    apart = np.linalg.norm(where[:, None] - where[None], axis=2)
    every = np.argwhere((apart >= least) & (apart <= most) & ~np.eye(len(poses), dtype=bool))
    if not len(every):
        raise InputError(f"no two of {len(poses)} scans are {least:g} to {most:g} m apart")
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
