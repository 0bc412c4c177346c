"""Clouds of a given number of points, drawn at random from simulated or real scans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.datasets import dataset
from poli.scan import Scan
from poli.se3 import inverse
from poli.worlds import SPINNING, scan_of

_SENSOR = SPINNING["os2_128"]
# A VLP-16 measures 18,000 columns per second. At 8.3 revolutions per second, that is about 30,000 returns per scan in the town.
_VLP16 = replace(SPINNING["vlp16"], steps=2160, rate=18_000 / 2160)


@dataclass(frozen=True, eq=False)
class SizedCloud:
    points: np.ndarray  # (N, 3) float64, in the sensor's frame
    source: str  # description of the scans they were drawn from


def simulated_cloud(count: int) -> SizedCloud:
    """Draw from one scan of an OS2-128 in a town, doubling its columns until it has enough returns."""
    steps = _SENSOR.steps
    while len(_sweep(steps)) < count:
        steps *= 2
    points = _sweep(steps)
    return SizedCloud(_drawn(points, count), f"a simulated town, a sweep of an OS2-128 of {steps} columns ({len(points)} returns)")


def vlp16_sweep() -> Scan:
    """A scan of about 30,000 returns, with the fields of a typical driver."""
    return scan_of("town", _VLP16).keep("ring", "time", "intensity")


def real_cloud(root: Path, count: int) -> SizedCloud:
    """Draw from the first scan of the largest sequence, merged with as many following scans as needed in the frame of the first.
    The folder has the layout described in `real_sequences`."""
    name = _largest_sequence(root)
    sequence = dataset("kitti", root, sequence=name)
    scans = [sequence[0].clean().points.astype(np.float64)]
    while sum(map(len, scans)) < count:
        row = len(scans)
        if sequence.poses is None or row == len(sequence):
            trouble = f"there is no poses/{name}.txt to merge scans by" if sequence.poses is None else "there are no more scans"
            raise InputError(f"{root}: {count} points requested of sequence {name}, it has {sum(map(len, scans))} and {trouble}")
        T = inverse(sequence.poses[0]) @ sequence.poses[row]
        scans.append(sequence[row].clean().points.astype(np.float64) @ T[:3, :3].T + T[:3, 3])
    merged = f"{len(scans)} scans merged by their poses" if len(scans) > 1 else "one scan"
    points = np.concatenate(scans)
    return SizedCloud(_drawn(points, count), f"the real sequence {name}, {merged} ({len(points)} returns)")


def _drawn(points: np.ndarray, count: int) -> np.ndarray:
    """Draw without replacement, in random order, so that no method profits from the order of the sensor."""
    return np.ascontiguousarray(points[np.random.default_rng(0).permutation(len(points))[:count]])


@lru_cache(maxsize=4)
def _sweep(steps: int) -> np.ndarray:  # (N, 3)
    return scan_of("town", replace(_SENSOR, steps=steps)).points.astype(np.float64)


def _largest_sequence(root: Path) -> str:
    """The sequence with the most points, judged by file size."""
    sizes = {p.parent.name: sum(f.stat().st_size for f in p.glob("*.bin")) for p in sorted(root.glob("sequences/*/velodyne"))}
    if not any(sizes.values()):
        raise FormatError(f"{root}: no scans sequences/NAME/velodyne/*.bin found; give a folder in the layout of KITTI odometry")
    return max(sizes, key=lambda name: sizes[name])
