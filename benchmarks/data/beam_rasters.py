"""Real scans as rasters: the ring of every return, and how many steps of azimuth lie between neighbors on a ring.

Public sequences rarely have ring numbers, but the order of their points, their elevations or their azimuths tell them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.data.raw_kitti import rings_by_order
from benchmarks.data.real_sequences import evenly_spaced, is_off, uncorrected_sequence
from poli.data.datasets import correct_elevation
from poli.errors import InputError
from poli.kdtree.tree import KDTree
from poli.scan import Scan
from poli.se3 import inverse, so3_log

SENSOR_OF = {
    "kitti_raw_0005": "HDL-64E",
    "kitti_raw_0009": "HDL-64E",
    "kitti_raw_0013": "HDL-64E",
    "nuscenes_0001": "HDL-32E",
    "nuscenes_0006": "HDL-32E",
    "mulran_kaist03": "OS1-64",
    "robosense_e1r": "E1R",
}
STEPS = {"HDL-64E": 2083, "HDL-32E": 1085, "OS1-64": 1024}  # columns per turn
_HDL32E_BEAMS = 32
_RING_GAP = 0.15  # degrees: elevations of an OS1 are constant, so a wider gap separates two rings
_NO_RETURN = 1.0  # meters: nuScenes keeps beams without return near the origin, moved by its motion compensation
_STILL = 0.2  # degrees between scans: faster, and the deskewed scans of the E1R are no raster
_E1R_STEP = 0.615  # degrees, near the center
_E1R_NEAREST = 0.8  # meters; nearer, the receiver's distance from the emitter shifts the directions
_DEGREE = 5  # of the polynomials that map directions of the E1R to its columns and rows


@dataclass(frozen=True, eq=False)
class Raster:
    """Returns sorted by ring and, within a ring, by column."""

    points: np.ndarray  # (N, 3), the sensor's frame
    ring: np.ndarray  # (N,) int, from 0
    column: np.ndarray  # (N,) int; neighbors on a ring differ by one unless returns are missing between them
    turn: int  # columns per turn; 0: the sensor does not turn

    @property
    def ranges(self) -> np.ndarray:  # (N,)
        return np.linalg.norm(self.points, axis=1)

    @property
    def across(self) -> np.ndarray:  # (N,) columns, the same for all rings
        """Place across the scan: the azimuth in columns, of a sensor that does not turn the column."""
        return azimuths(self.points) * self.turn / 360.0 if self.turn else self.column.astype(np.float64)

    def select(self, mask: np.ndarray) -> Raster:
        return replace(self, points=self.points[mask], ring=self.ring[mask], column=self.column[mask])


def raster_of(points: np.ndarray, ring: np.ndarray, column: np.ndarray, turn: int) -> Raster:  # (N, 3), (N,), (N,)
    order = np.lexsort((column, ring))
    return Raster(points[order].astype(np.float64), ring[order].astype(np.int64), column[order].astype(np.int64), turn)


def rasters(root: Path, name: str, count: int) -> list[Raster]:
    """`count` scans, evenly spaced over the sequence; of the E1R, those taken while it was held still."""
    rows = usable_rows(root, name)
    return [raster(root, name, rows[step]) for step in evenly_spaced(len(rows), count)]


def usable_rows(root: Path, name: str) -> list[int]:
    """Rows of the scans that are rasters."""
    sequence = uncorrected_sequence(root, name, 0.0)
    if sequence.poses is None:
        raise InputError(f"{root}: sequence {name} has no poses; add poses/{name}.txt")
    rows = list(range(len(sequence)))
    if SENSOR_OF[name] != "E1R":
        return rows
    turns = [np.degrees(np.linalg.norm(so3_log((inverse(a) @ b)[:3, :3]))) for a, b in pairwise(sequence.poses)]
    return [row for row in rows[1:-1] if max(turns[row - 1], turns[row]) < _STILL]


def raster(root: Path, name: str, row: int) -> Raster:
    """One scan of a known sequence as a raster, without beams that have no return."""
    points = recorded(root, name, row)
    if SENSOR_OF[name] == "HDL-64E":
        return _hdl64e(points, is_off(root, name))
    if SENSOR_OF[name] == "HDL-32E":
        index = np.arange(len(points))
        seen = np.linalg.norm(points, axis=1) > _NO_RETURN
        return raster_of(points[seen], index[seen] % _HDL32E_BEAMS, index[seen] // _HDL32E_BEAMS, STEPS["HDL-32E"])
    if SENSOR_OF[name] == "OS1-64":
        return _os1(points)
    return _e1r(points, *_e1r_template(root, name))


def recorded(root: Path, name: str, row: int) -> np.ndarray:  # (N, 3)
    """All points of a scan in the order of the file, those without a return included."""
    scan: Scan = _opened(root, name)[row]
    return scan.points.astype(np.float64)


@lru_cache(maxsize=8)
def _opened(root: Path, name: str):
    return uncorrected_sequence(root, name, 0.0)


def azimuths(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) degrees, 0 to 360
    return np.degrees(np.arctan2(points[:, 1], points[:, 0])) % 360.0


def elevations(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) degrees
    return np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))


def _hdl64e(points: np.ndarray, low: bool) -> Raster:
    """KITTI stores ring after ring. Its azimuths are multiples of 0.09 degrees, of which a step has one or two, so columns are
    counted from gap to gap."""
    ring = 63 - rings_by_order(points).astype(np.int64)
    if low:
        points = correct_elevation(points)
    azimuth = azimuths(points)
    order = np.lexsort((azimuth, ring))
    points, ring, azimuth = points[order], ring[order], azimuth[order]
    steps = np.maximum(np.round(np.diff(azimuth) * STEPS["HDL-64E"] / 360.0), 1).astype(np.int64)
    steps[np.diff(ring) != 0] = 1
    return raster_of(points, ring, np.concatenate([[0], np.cumsum(steps)]), STEPS["HDL-64E"])


def _os1(points: np.ndarray) -> Raster:
    """Elevations and azimuths of an OS1 are exact: rings are clusters of elevation, and each has its own phase of azimuth."""
    elevation = elevations(points)
    order = np.argsort(elevation)
    ring = np.empty(len(points), np.int64)
    ring[order] = np.concatenate([[0], np.cumsum(np.diff(elevation[order]) > _RING_GAP)])
    place = azimuths(points) * STEPS["OS1-64"] / 360.0
    wave = np.exp(2j * np.pi * place)
    phase = np.angle(np.bincount(ring, wave.real) + 1j * np.bincount(ring, wave.imag)) / (2.0 * np.pi)
    return raster_of(points, ring, np.round(place - phase[ring]).astype(np.int64), STEPS["OS1-64"])


def _e1r(points: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> Raster:
    """Columns and rows of the E1R by polynomials of the direction. A slight turn during the scan shifts all of them alike."""
    points = points[np.linalg.norm(points, axis=1) > _E1R_NEAREST]
    terms = _terms(points)
    place = [terms @ columns, terms @ rows]
    column, row = (np.round(p - np.angle(np.exp(2j * np.pi * p).mean()) / (2.0 * np.pi)).astype(np.int64) for p in place)
    return raster_of(points, row - row.min(), column - column.min(), 0)


def _terms(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, terms)
    x, y = np.arctan2(points[:, 1], points[:, 0]), np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1]))
    return np.stack([x**i * y**j for i in range(_DEGREE + 1) for j in range(_DEGREE + 1 - i)], axis=1)


@lru_cache(maxsize=2)
def _e1r_template(root: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Polynomials that map directions to columns and rows, from the lattice of directions of one still scan."""
    rows = usable_rows(root, name)
    if not rows:
        raise InputError(f"{root}: sequence {name} has no scan that was taken while the sensor was still")
    points = recorded(root, name, rows[len(rows) // 2])
    points = points[np.linalg.norm(points, axis=1) > _E1R_NEAREST]
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    lattice = lattice_numbers(directions, np.radians(_E1R_STEP))
    seen = lattice[:, 0] > np.iinfo(np.int64).min
    terms, places = _terms(points[seen]), lattice[seen].astype(np.float64)
    for _ in range(3):
        found = np.linalg.lstsq(terms, places, rcond=None)[0]
        good = (np.abs(terms @ found - places) < 0.3).all(axis=1)
        terms, places = terms[good], places[good]
    return found[:, 0], found[:, 1]


def lattice_numbers(directions: np.ndarray, step: float) -> np.ndarray:  # (N, 3) unit vectors, radians -> (N, 2) int
    """Column (against the azimuth) and row of each direction of a lattice, from neighbor to neighbor, beginning near the x axis.

    Directions that cannot be reached have the lowest integer."""
    numbers = np.full((len(directions), 2), np.iinfo(np.int64).min)
    index = KDTree(directions)
    first = int(np.argmax(directions[:, 0]))
    numbers[first] = 0
    waiting = deque([(first, np.array([0.0, -step, 0.0]), np.array([0.0, 0.0, step]))])
    while waiting:
        batch = [waiting.popleft() for _ in range(len(waiting))]
        aims, sources = [], []
        for at, across, up in batch:
            for move, kind, sign in ((across, 0, 1), (across, 0, -1), (up, 1, 1), (up, 1, -1)):
                aims.append(directions[at] + sign * move)
                sources.append((at, across, up, kind, sign))
        distance, nearest = index.nearest(1, np.array(aims))
        for far, to, (at, across, up, kind, sign) in zip(distance[:, 0], nearest[:, 0], sources, strict=True):
            if far > 0.25 * step or numbers[to, 0] > np.iinfo(np.int64).min:
                continue
            numbers[to] = numbers[at]
            numbers[to, kind] += sign
            seen = sign * (directions[to] - directions[at])
            across, up = (0.7 * across + 0.3 * seen, up) if kind == 0 else (across, 0.7 * up + 0.3 * seen)
            waiting.append((int(to), across, up))
    return numbers
