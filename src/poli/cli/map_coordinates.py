"""Clouds in map coordinates (UTM and the like), hundreds of kilometers from the origin: center them for computing and drawing.

Voxels are numbered from the origin, the network assumes the sensor there, and 4-byte floats round such coordinates to centimeters
or worse. So commands subtract an offset of whole hundreds of meters and say it. Outputs that can hold 8-byte floats get the
original coordinates back; the others are written relative to the offset.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from poli.cli.output import say

if TYPE_CHECKING:
    from pathlib import Path

    from poli.ellipsoids import Ellipsoids
    from poli.scan import Scan

_FAR = 8192.0  # meters: beyond it, 4-byte floats are coarser than a millimeter, and no LiDAR sees this far
_NEAR = 1000.0  # meters: axes whose coordinates are smaller are left alone, such as heights
_APART = 4.0  # times the spread of the points: nearer, the origin may be a sensor among them
_ROUND = 100.0  # meters
_ABOVE = 1e4  # meters above the points: normals of maps face up


def map_offset(scan: Scan) -> np.ndarray | None:  # (3,)
    """The offset of a cloud in map coordinates, in whole hundreds of meters; None if its origin may be the sensor."""
    points = scan.points
    if not len(points):
        return None
    middle = np.median(points.astype(np.float64), axis=0)
    spread = float(np.median(np.linalg.norm(points - middle, axis=1)))
    if not np.linalg.norm(middle) > max(_FAR, _APART * spread):
        return None
    return np.where(np.abs(middle) < _NEAR, 0.0, np.rint(middle / _ROUND) * _ROUND)


def without_offset(scan: Scan, offset: np.ndarray | None) -> Scan:
    """The same cloud relative to the offset, as 8-byte floats."""
    return scan if offset is None else replace(scan, points=scan.points.astype(np.float64) - offset)


def with_offset(field: Ellipsoids, offset: np.ndarray | None) -> Ellipsoids:
    """The same ellipsoids in map coordinates."""
    return field if offset is None else field.transform(shift(offset))


def shift(offset: np.ndarray) -> np.ndarray:  # (3,) -> (4, 4)
    T = np.eye(4)
    T[:3, 3] = offset
    return T


def above(offset: np.ndarray | None) -> np.ndarray | None:  # (3,)
    """Where normals face in centered map coordinates: up, since the sensor's position is unknown."""
    return None if offset is None else np.array([0.0, 0.0, _ABOVE])


def offset_text(offset: np.ndarray) -> str:
    return f"({', '.join(f'{value:.0f}' for value in offset)})"


def say_offset(path: Path | str, scan: Scan, offset: np.ndarray | None, then: str) -> None:
    """Say that a cloud is in map coordinates, what follows, and whether its file had rounded them already."""
    if offset is None:
        return
    say(f"{path}: map coordinates; {then.format(offset=offset_text(offset))}")
    if scan.points.dtype == np.float32:
        step = float(np.spacing(np.float32(np.abs(offset).max())))
        say(f"{path}: stores 4-byte floats, which round these coordinates to {step:.2g} m", to_stderr=True)
