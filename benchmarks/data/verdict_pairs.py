"""Pairs of scans of one place and of different places, to evaluate whether a registration knows when it is wrong.

Sequences and worlds belong to one of two halves: the probability is fitted on one and evaluated on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.data.real_sequences import is_off, uncorrected_sequence
from benchmarks.data.rings import thin_rings
from poli.io.datasets import Dataset, correct_elevation
from poli.se3 import exp, inverse
from poli.worlds import SENSORS, Trajectory, World, sweep, usual_ride
from poli.worlds.places import make_place
from poli.worlds.scan_pairs import HELD_OUT_SEEDS

FIT, REPORT = "fit", "report"
NEAR, FAR, ELSEWHERE = "near", "far", "elsewhere"
_ELSEWHERE = 100.0  # meters: scans of one sequence that are at least this far apart show different places
OUTDOORS = ("town", "campus", "apartments", "roundabout", "riverside", "bridge", "parking", "tunnel", "hall")
INDOORS = ("rooms", "basement", "corridor")


@dataclass(frozen=True)
class RealScans:
    """Spots in a real sequence: three scans each, of which the second is near the first and the third far from it."""

    root: Path
    sequence: str
    sensor: str
    spots: int = 4
    beams: int | None = None
    rows: tuple[int, int] | None = None  # first and last + 1; None: all
    near: float = 15.0  # meters between the scans of a near pair; twice as much for a far one

    @property
    def name(self) -> str:
        return f"{self.sequence}{f', {self.beams} beams' if self.beams else ''}"

    @property
    def place(self) -> str:
        return self.sequence

    @cached_property
    def _dataset(self) -> Dataset:
        return uncorrected_sequence(self.root, self.sequence, 2.5 if self.sequence.startswith("nuscenes") else 0.0)

    @cached_property
    def _chosen(self) -> list[int]:
        """Rows of the sequence, three per spot. In a short sequence the third may be near, too."""
        generator = np.random.default_rng(crc32(self.name.encode()))
        first, last = self.rows or (0, len(self._dataset))
        where = self._all_poses[first:last, :3, 3]
        chosen = []
        for part in np.array_split(np.arange(last - first), self.spots):
            row = int(generator.choice(part))
            apart = np.linalg.norm(where - where[row], axis=1)
            apart[row] = np.nan
            for low, high in ((0.0, 1.0), (1.0, 2.0)):
                among = np.flatnonzero((apart > low * self.near) & (apart <= high * self.near))
                if not len(among):
                    among = np.flatnonzero(apart > 0.0)
                chosen.append(first + int(generator.choice(among)))
            chosen.insert(-2, first + row)
        return chosen

    @cached_property
    def _all_poses(self) -> np.ndarray:  # (M, 4, 4)
        poses = self._dataset.poses
        assert poses is not None
        return poses

    @property
    def poses(self) -> np.ndarray:  # (3 spots, 4, 4)
        return self._all_poses[self._chosen]

    def recorded(self, number: int) -> np.ndarray:  # (N, 3)
        points = self._dataset[self._chosen[number]].clean().points
        if self.beams is not None:
            points = thin_rings(points, self.sensor, self.beams)
        return correct_elevation(points) if is_off(self.root, self.sequence) else points


@dataclass(frozen=True)
class SimulatedScans:
    """Spots in a simulated world, likewise."""

    kind: str
    seed: int
    sensor: str
    spots: int = 2

    @property
    def name(self) -> str:
        return f"{self.place}, {self.sensor}"

    @property
    def place(self) -> str:
        return f"{self.kind} {self.seed}"

    @property
    def near(self) -> float:
        return 3.0 if self.kind in ("rooms", "basement") else 8.0 if self.kind in INDOORS else 15.0

    @cached_property
    def _drive(self) -> Trajectory:
        return Trajectory(_world(self.kind, self.seed).place.route, usual_ride(self.kind), self.seed)

    @cached_property
    def _times(self) -> np.ndarray:  # (3 spots,) seconds
        generator = np.random.default_rng(crc32(self.name.encode()))
        speed, last = usual_ride(self.kind).speed, self._drive.duration - 0.2
        starts = last * (np.arange(self.spots) + generator.uniform(0.0, 0.6, self.spots)) / self.spots
        steps = np.stack([np.zeros(self.spots), *(generator.uniform(low, low + 0.9, self.spots) for low in (0.1, 1.1))], axis=1)
        return np.minimum(starts[:, None] + steps * self.near / speed, last).ravel()

    @property
    def poses(self) -> np.ndarray:  # (3 spots, 4, 4)
        return self._drive.poses(self._times)

    def recorded(self, number: int) -> np.ndarray:  # (N, 3)
        world, sensor = _world(self.kind, self.seed), SENSORS[self.sensor]
        return sweep(world, sensor, self._drive.poses, self._times[number], seed=number).clean().points


Scans = RealScans | SimulatedScans


@cache  # making a place takes longer than a search
def _world(kind: str, seed: int) -> World:
    return World(make_place(kind, seed))


@dataclass(frozen=True)
class Sighting:
    """A scan, turned about the vertical by an angle of its own, so that the headings of two scans differ at random."""

    scans: Scans
    number: int

    @property
    def name(self) -> str:
        return f"{self.scans.name}, scan {self.number}"

    @property
    def _turn(self) -> np.ndarray:  # (4, 4)
        angle = np.random.default_rng(crc32(self.name.encode())).uniform(-np.pi, np.pi)
        return exp(np.array([0.0, 0.0, angle, 0.0, 0.0, 0.0]))

    @property
    def T_world_scan(self) -> np.ndarray:  # (4, 4)
        return self.scans.poses[self.number] @ inverse(self._turn)

    @property
    def points(self) -> np.ndarray:  # (N, 3)
        return self.scans.recorded(self.number).astype(np.float64) @ self._turn[:3, :3].T


@dataclass(frozen=True)
class VerdictPair:
    source: Sighting
    target: Sighting
    label: str  # NEAR, FAR or ELSEWHERE

    @property
    def name(self) -> str:
        return f"{self.source.name} to {self.target.name}"

    @property
    def T_target_source(self) -> np.ndarray | None:  # (4, 4)
        """The true pose; None if the scans show different places."""
        return None if self.label == ELSEWHERE else inverse(self.target.T_world_scan) @ self.source.T_world_scan


@dataclass(frozen=True)
class PairGroup:
    """Scans of similar sensors, all of one half. Each is paired with others, and with `strangers`, as different places."""

    name: str
    half: str
    preset: str
    scans: tuple[Scans, ...]
    strangers: tuple[Scans, ...] = ()
    real: bool = True

    @property
    def indoors(self) -> bool:
        return self.preset == "indoor"

    def pairs(self) -> list[VerdictPair]:
        """As many pairs of one place as of different places, in an order in which every first part is balanced."""
        generator = np.random.default_rng(crc32(f"{self.name} {self.half}".encode()))
        same = [pair for scans in self.scans for pair in _same_place(scans)]
        same = [same[row] for row in generator.permutation(len(same))]
        apart = self._elsewhere(len(same), generator)
        return [pair for pairs in zip(same, apart, strict=True) for pair in pairs]

    def _elsewhere(self, count: int, generator: np.random.Generator) -> list[VerdictPair]:
        sources, targets = (
            [Sighting(scans, number) for scans in among for number in range(3 * scans.spots)]
            for among in (self.scans, (*self.scans, *self.strangers))
        )
        found: list[VerdictPair] = []
        while len(found) < count:
            a, b = sources[generator.integers(len(sources))], targets[generator.integers(len(targets))]
            apart = np.linalg.norm((a.scans.poses[a.number] - b.scans.poses[b.number])[:3, 3])
            far = isinstance(a.scans, RealScans) and apart >= _ELSEWHERE
            if (a.scans.place != b.scans.place or far) and not any((a, b) == (pair.source, pair.target) for pair in found):
                found.append(VerdictPair(a, b, ELSEWHERE))
        return found


def _same_place(scans: Scans) -> Iterator[VerdictPair]:
    """Yield the pairs of each spot that are not too far apart."""
    where = scans.poses[:, :3, 3]
    for first in range(0, len(where), 3):
        for i, j in ((first, first + 1), (first + 2, first), (first + 1, first + 2)):
            apart = float(np.linalg.norm(where[i] - where[j]))
            if 0.0 < apart <= 2.0 * scans.near:
                yield VerdictPair(Sighting(scans, i), Sighting(scans, j), NEAR if apart <= scans.near else FAR)


def pair_groups(real: Path | None) -> list[PairGroup]:
    """All groups; the simulated ones only without a folder of real sequences."""
    groups = []
    for half, seed in ((FIT, HELD_OUT_SEEDS + 500), (REPORT, HELD_OUT_SEEDS + 600)):
        for sensor in ("vlp16", "hdl32e", "os1_64"):
            scans = tuple(SimulatedScans(kind, seed, sensor, spots=1) for kind in OUTDOORS)
            groups.append(PairGroup(f"simulated {sensor}", half, sensor, scans, real=False))
        for sensor in ("os0_64", "mid360", "e1r"):
            scans = tuple(SimulatedScans(kind, seed, sensor) for kind in INDOORS)
            groups.append(PairGroup(f"simulated {sensor}", half, "indoor", scans, real=False))
    return groups if real is None else [*groups, *_real_groups(real)]


def _real_groups(root: Path) -> list[PairGroup]:
    def group(half: str, beams: int, preset: str, *scans: Scans) -> PairGroup:
        return PairGroup(f"real, {beams} beams", half, preset, scans)

    def kitti(name: str, beams: int | None, spots: int) -> RealScans:
        return RealScans(root, f"kitti_raw_{name}", "hdl64e", spots, beams)

    def nuscenes(name: str, spots: int, beams: int | None = None) -> RealScans:
        return RealScans(root, f"nuscenes_{name}", "hdl32e", spots, beams)

    def mulran(beams: int | None) -> RealScans:
        return RealScans(root, "mulran_kaist03", "os1_64", 2, beams)

    # Half of this sequence was used to choose the preset.
    handheld = RealScans(root, "robosense_e1r", "e1r", 8, rows=(60, 120), near=3.0)
    rooms = tuple(SimulatedScans(kind, HELD_OUT_SEEDS + 700, "e1r") for kind in INDOORS)
    return [
        group(FIT, 16, "vlp16", kitti("0005", 16, 5), kitti("0013", 16, 4)),
        group(FIT, 32, "hdl32e", kitti("0005", 32, 4), kitti("0013", 32, 3), nuscenes("0001", 2)),
        group(FIT, 64, "hdl64e", kitti("0005", None, 4), kitti("0013", None, 3)),
        group(REPORT, 16, "vlp16", kitti("0009", 16, 5), nuscenes("0006", 3, 16), mulran(16)),
        group(REPORT, 32, "hdl32e", kitti("0009", 32, 5), nuscenes("0006", 4)),
        group(REPORT, 64, "hdl64e", kitti("0009", None, 6), mulran(None)),
        PairGroup("real, handheld", REPORT, "indoor", (handheld,), rooms),
    ]
