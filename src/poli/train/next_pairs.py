"""Training pairs of consecutive scans, with the poses of the dataset: the paper's training on scans.

Both scans are voxelized alike, and matched by nearest neighbors under the given pose within a distance. Nothing is added: no noise,
no denser partner, no sectors unless asked for. Scans are read when a step needs them, so a recording may be of any length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np
import torch

from poli.errors import InputError
from poli.estimation.architecture import UP, AnyArchitecture, motion_inputs
from poli.estimation.ordered_cloud import Viewpoint
from poli.io.datasets import Dataset
from poli.kdtree.tree import KDTree
from poli.scan import Scan
from poli.se3 import inverse
from poli.train.config import ScanConfig, Stage
from poli.train.epochs import drawn
from poli.train.grouping import GroupBatch
from poli.train.losses import MatchBatch
from poli.train.network_input import group
from poli.train.object_pairs import PairBatch, joined, probes
from poli.train.scan_pairs import sector
from poli.train.tracked_log import open_datasets
from poli.voxels import voxel_downsample

_LEFT_OUT = 0.02  # fraction of a recording at its end, for validation and calibration
_VALIDATED = 16  # pairs of each recording at most
_STANDING = 0.02  # meters between scans: a standing sensor hits the same spots again, which says nothing about calibration
_LEAST_POINTS = 64  # of a scan used for training


@dataclass(frozen=True)
class Recording:
    """A recording with poses. Its last pairs are held out."""

    scans: Dataset
    voxel: float  # meters; 0: all points
    stride: int
    lock: Lock = field(default_factory=Lock)  # readers of some formats share a file

    def __post_init__(self) -> None:
        if self.scans.poses is None:
            raise InputError(f'{self.scans.name}: this sequence has no poses, which scans.partner = "next" needs')
        if len(self.scans) < 3 * self.stride:
            raise InputError(f"{self.scans.name}: has {len(self.scans)} scans; {3 * self.stride} are needed to form pairs")

    @property
    def held_out(self) -> np.ndarray:
        """Rows of the first scans of held-out pairs, the last ones between which the sensor moved."""
        moves = np.linalg.norm(self.T_world_scan[self.stride :, :3, 3] - self.T_world_scan[: -self.stride, :3, 3], axis=1)
        moving = np.flatnonzero(moves >= _STANDING)
        rows = moving if len(moving) else np.arange(len(moves))
        return rows[-max(1, round(_LEFT_OUT * len(rows))) :]

    @property
    def learned(self) -> int:
        """Number of pairs to learn from, without a scan in a held-out pair."""
        return max(1, int(self.held_out[0]) - self.stride)

    @property
    def T_world_scan(self) -> np.ndarray:  # (M, 4, 4)
        """The given poses."""
        assert self.scans.poses is not None
        return self.scans.poses

    def pair(self, row: int) -> tuple[Scan, Scan, np.ndarray]:
        """Read a scan Q, its partner P, and T_q_p."""
        q, p = (self._read(r) for r in (row, row + self.stride))
        return q, p, inverse(self.T_world_scan[row]) @ self.T_world_scan[row + self.stride]

    def _read(self, row: int) -> Scan:
        with self.lock:
            points = self.scans[row].clean().points
        return voxel_downsample(Scan(points), self.voxel) if self.voxel and len(points) else Scan(points)


class NextSource:
    """Batches of consecutive scans."""

    growth = None  # partners are always as dense as the clouds

    def __init__(self, config: ScanConfig, architecture: AnyArchitecture, seed: int, recordings: Sequence[Recording]) -> None:
        self._config, self._architecture, self._seed, self._recordings = config, architecture, seed, recordings
        self._ends = np.cumsum([recording.learned for recording in recordings])

    @property
    def samples(self) -> int:
        """Number of pairs of an epoch."""
        return int(self._ends[-1])

    def draw(self, rng: np.random.Generator, stage: Stage, number: int = 0) -> PairBatch:
        chosen = drawn(self._seed, self.samples, number, self._config.clouds)
        return self._batch([self._usable(sample) for sample in chosen], rng, stage)

    def held_out(self, draws: int) -> Iterator[PairBatch]:
        """Yield held-out pairs; each once, since nothing about them is random."""
        for number, recording in enumerate(self._recordings):
            rows = recording.held_out
            for row in rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _VALIDATED)).round().astype(int))]:
                pair = recording.pair(int(row))
                if _enough(pair):
                    yield self._batch([pair], np.random.default_rng([number, int(row)]), "sizes")

    def _usable(self, sample: int) -> tuple[Scan, Scan, np.ndarray]:
        """Return a pair or, where a scan is all but empty, the next one."""
        for other in range(sample, sample + self.samples):
            number = int(np.searchsorted(self._ends, other % self.samples, side="right"))
            recording = self._recordings[number]
            pair = recording.pair(other % self.samples - int(self._ends[number]) + recording.learned)
            if _enough(pair):
                return pair
        raise InputError(f"scans: no pair of scans has {_LEAST_POINTS} points; check scans.datasets")

    def _batch(self, pairs: Sequence[tuple[Scan, Scan, np.ndarray]], rng: np.random.Generator, stage: Stage) -> PairBatch:
        config = self._config
        count = min(config.points or np.inf, *(len(q) for q, _, _ in pairs))
        groupings, columns, motions, around = [], [], [], []
        for scan, partner, T in pairs:
            q, p = (s.points.astype(np.float64) for s in (sector(scan, int(count), rng), partner))
            seen = p @ T[:3, :3].T + T[:3, 3]
            index = KDTree(seen)
            distance, nearest = index.nearest(1, q)
            columns.append((p[nearest[:, 0]], q, (distance[:, 0] <= config.max_distance).astype(float), T))
            groupings.append(group(q, self._architecture, Viewpoint(np.zeros(3), UP)))
            motions.append(motion_inputs(float(np.linalg.norm(T[:3, 3]))))
            if stage == "curvature":
                around.append(probes(index, seen, q, groupings[-1], rng))
        source, target, weights, poses = (np.stack(column) for column in zip(*columns, strict=True))
        matches = MatchBatch(*(torch.from_numpy(a) for a in (source, target, weights, poses)))
        unknown = np.full(target.shape, np.nan)  # normals
        groups = GroupBatch.of(groupings, motions)
        return PairBatch(groups, 1, matches, poses, unknown, float(weights.mean()), around=joined(around))


def _enough(pair: tuple[Scan, Scan, np.ndarray]) -> bool:
    return min(len(pair[0]), len(pair[1])) >= _LEAST_POINTS


def next_source(config: ScanConfig, architecture: AnyArchitecture, seed: int, folder: Path) -> NextSource:
    """Return the source for a configuration with `partner = "next"`, whose datasets are under a folder."""
    recordings = []
    for settings, opened in open_datasets(config, folder):
        opened.min_range = config.min_range
        recordings.append(Recording(opened, settings.voxel, settings.stride))
    return NextSource(config, architecture, seed, recordings)
