"""How real scans are taken: directions of the rays, motion between scans, returns of the carrier itself, and moving objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.beam_rasters import SENSOR_OF, Raster, azimuths, elevations, raster, recorded, usable_rows
from benchmarks.data.real_sequences import evenly_spaced, refine, uncorrected_sequence
from poli.kdtree.tree import KDTree
from poli.se3 import inverse, so3_log

OWN_REACH = 2.5  # meters: returns of the carrier are nearer
_OWN_VOXEL, _OWN_SHARE, _OWN_SCANS = 0.05, 0.6, 40  # meters, of the scans, scans
_NOTHING = 0.5  # meters: nuScenes keeps beams without return within it
_MOVED = 0.3  # degrees and, times 0.1, meters per scan: while the sensor stands still, everything is fixed in its frame
_APART = (-10, -5, 5, 10)  # scans
_SEEN = 4  # neighboring rays that must agree that space is free
_NEAR = 1.5  # steps of the raster: farther rays are no neighbors
_MARGIN = {"E1R": (0.15, 0.03)}  # meters, share of the range
_WIDE_MARGIN = (0.5, 0.03)
QUANTILES = (0.05, 0.5, 0.95)
_LATTICES = np.linspace(0.97, 1.03, 121)  # times the median step
_WINDOW_START, _WINDOW = 60.0, 15.0  # degrees of azimuth in which the phase is measured


def motion(root: Path, name: str) -> dict[str, float]:
    """Quantiles of translation and rotation between consecutive scans."""
    poses = uncorrected_sequence(root, name, 0.0).poses
    assert poses is not None
    steps = [inverse(a) @ b for a, b in pairwise(poses)]
    meters = np.array([np.linalg.norm(T[:3, 3]) for T in steps])
    degrees = np.array([np.degrees(np.linalg.norm(so3_log(T[:3, :3]))) for T in steps])
    found = {f"translation_{100 * q:02.0f}": float(np.quantile(meters, q)) for q in QUANTILES}
    return found | {f"rotation_{100 * q:02.0f}": float(np.quantile(degrees, q)) for q in QUANTILES}


def own_returns(root: Path, name: str) -> dict[str, float]:
    """Share of the near returns that are fixed in the sensor's frame while it moves."""
    poses = uncorrected_sequence(root, name, 0.0).poses
    assert poses is not None
    moving = [
        row
        for row in range(1, len(poses))
        if np.linalg.norm((T := inverse(poses[row - 1]) @ poses[row])[:3, 3]) > 0.1 * _MOVED
        or np.degrees(np.linalg.norm(so3_log(T[:3, :3]))) > _MOVED
    ]
    rows = [moving[step] for step in evenly_spaced(len(moving), _OWN_SCANS)]
    clouds = [recorded(root, name, row) for row in rows]
    clouds = [p[np.linalg.norm(p, axis=1) > (_NOTHING if SENSOR_OF[name] == "HDL-32E" else 0.0)] for p in clouds]
    near = [p[np.linalg.norm(p, axis=1) < OWN_REACH] for p in clouds]
    keys = [(np.floor(p / _OWN_VOXEL).astype(np.int64) + 512) @ np.array([1 << 20, 1 << 10, 1]) for p in near]
    voxels, counts = np.unique(np.concatenate([np.unique(k) for k in keys]), return_counts=True)
    fixed = voxels[counts > _OWN_SHARE * len(rows)]
    own = sum(int(np.isin(k, fixed).sum()) for k in keys)
    total, all_near = sum(map(len, clouds)), sum(map(len, near))
    return {"near": all_near / total, "own_of_near": own / all_near if all_near else float("nan"), "own": own / total}


@dataclass(frozen=True)
class Movers:
    share: float  # of the returns that other scans observe
    observed: float  # share of the returns that at least two scans observe


def movers(root: Path, name: str, count: int) -> Movers:
    """Share of returns in space that is free in other scans, 5 and 10 scans before and after, under refined poses."""
    sequence = uncorrected_sequence(root, name, 0.0)
    usable = set(usable_rows(root, name))
    rows = [row for row in sorted(usable) if sum(row + d in usable for d in _APART) >= 2]
    free_total = observed_total = total = 0
    poses = sequence.poses
    assert poses is not None
    for row in (rows[step] for step in evenly_spaced(len(rows), count)):
        here = _beyond(raster(root, name, row))
        observed, free = np.zeros(len(here.points), int), np.zeros(len(here.points), int)
        for other in (row + d for d in _APART if row + d in usable):
            there = _beyond(raster(root, name, other))
            T = refine(there.points, here.points, inverse(poses[other]) @ poses[row]).T_q_p
            seen, empty = _free(here.points @ T[:3, :3].T + T[:3, 3], there, SENSOR_OF[name])
            observed, free = observed + seen, free + empty
        judged = observed >= 2
        free_total += int((judged & (free >= 2) & (2 * free > observed)).sum())
        observed_total, total = observed_total + int(judged.sum()), total + len(judged)
    return Movers(free_total / max(observed_total, 1), observed_total / max(total, 1))


def _beyond(scan: Raster) -> Raster:
    return scan.select(scan.ranges > OWN_REACH) if scan.turn else scan


def _free(points: np.ndarray, scan: Raster, sensor: str) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (N,), (N,) bool
    """Which points the scan's rays pass near, and which of them have only farther returns around."""
    table = ring_table(scan)
    scale = np.array([1.0 / step_of(scan), 1.0 / float(np.median(np.abs(np.diff(table))))])

    def place(p: np.ndarray) -> np.ndarray:
        return np.stack([*(np.stack([azimuths(p), elevations(p)]) * scale[:, None]), np.zeros(len(p))], axis=1)

    distance, nearest = KDTree(place(scan.points)).nearest(8, place(points))
    around = np.where(distance < _NEAR, scan.ranges[nearest], np.inf)
    seen = (distance < _NEAR).sum(axis=1) >= _SEEN
    fixed, share = _MARGIN.get(sensor, _WIDE_MARGIN)
    r = np.linalg.norm(points, axis=1)
    return seen, seen & (around.min(axis=1) > r * (1.0 + share) + fixed)


def step_of(scan: Raster) -> float:
    """Degrees of azimuth between columns."""
    whole = (np.diff(scan.ring) == 0) & (np.diff(scan.column) == 1)
    return float(np.median(_turned(np.diff(azimuths(scan.points)))[whole]))


def ring_table(scan: Raster) -> np.ndarray:  # (R,) degrees
    """Median elevation of each ring."""
    elevation = elevations(scan.points)
    return np.array([np.median(elevation[scan.ring == ring]) for ring in np.unique(scan.ring)])


def sampling(scans: list[Raster]) -> dict[str, Any]:
    """Step and jitter of the azimuth, how regular it is, and whether consecutive scans have the same phase.

    `regular` is 1 if the azimuths of a ring within a scan are a lattice, `locked` is 1 if those of consecutive scans are the same
    lattice; a random phase gives about 1 / sqrt(scans).
    """
    steps = []
    for scan in scans:
        whole = (np.diff(scan.ring) == 0) & (np.diff(scan.column) == 1)
        steps.append(_turned(np.diff(azimuths(scan.points)))[whole])
    step = float(np.median(np.concatenate(steps)))
    ring = int(np.argmax(np.bincount(np.concatenate([scan.ring for scan in scans]))))
    places = []
    for scan in scans:
        azimuth = azimuths(scan.points[scan.ring == ring]) - (_WINDOW_START if scan.turn else 0.0)
        if ((azimuth > 0.0) & (azimuth < _WINDOW)).sum() >= 10:
            places.append(azimuth[(azimuth > 0.0) & (azimuth < _WINDOW)])
    waves = _waves(places)
    return {
        "rings": len(np.unique(scans[0].ring)),
        "step": step,
        "jitter": float(np.std(np.clip(np.concatenate(steps), 0.0, 3.0 * step))),
        "regular": float(np.abs(waves).mean()) if len(waves) else float("nan"),
        "locked": float(np.abs((waves / np.abs(waves)).mean())) if len(waves) else float("nan"),
        "scans": len(waves),
        "elevations": [round(float(e), 3) for e in ring_table(scans[0])],
    }


def _waves(places: Sequence[np.ndarray]) -> np.ndarray:  # (scans,) complex
    """Strength and phase of the lattice on which the azimuths of each scan lie: the most regular one near their median step, or
    near half of it if some steps are half as wide, as those of the HDL-64E."""
    if not places:
        return np.zeros(0, complex)
    steps = np.concatenate([np.abs(np.diff(np.sort(place))) for place in places])
    step = float(np.median(steps))
    if (steps < 0.7 * step).mean() > 0.02:
        step *= 0.5
    tried = [np.array([np.exp(2j * np.pi * place / width).mean() for place in places]) for width in step * _LATTICES]
    return max(tried, key=lambda waves: float(np.abs(waves).mean()))


def _turned(differences: np.ndarray) -> np.ndarray:
    return np.abs((differences + 180.0) % 360.0 - 180.0)
