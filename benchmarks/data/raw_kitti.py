"""What KITTI's raw recordings lack, for all systems alike: point times, ring numbers, and the correction of elevations."""

from __future__ import annotations

import numpy as np

from benchmarks.data.rings import nearest_ring, ring_elevations, thinned_rows
from poli.scan import Scan
from poli.spinning import PERIOD, Spin

TILT = 0.205  # degrees: KITTI's HDL-64E measures all elevations too low by this much (the value of KISS-ICP, CT-ICP and MAD-ICP)
_BEAMS = 64


def prepared(scan: Scan, beams: int | None = None) -> Scan:
    """The scan thinned to `beams` of the 64, with the fields `time` (seconds from the stamp) and `ring`, and with corrected
    elevations. The order matters: rings are found by the order of the file, and thinned by the elevations as recorded."""
    scan = Scan(scan.points, {"ring": rings_by_order(scan.points)}, scan.stamp)
    if beams is not None:
        scan = scan.select(thinned_rows(scan.points, "hdl64e", beams))
    times = Spin().times(scan.points, PERIOD)
    return Scan(corrected(scan.points), {**scan.fields, "time": times}, scan.stamp)


def corrected(points: np.ndarray, degrees: float = TILT) -> np.ndarray:  # (N, 3) -> (N, 3)
    """Raise each point by an angle, about the horizontal axis perpendicular to its beam: p x z."""
    p = points.astype(np.float64)
    axis = np.cross(p, (0.0, 0.0, 1.0))
    length = np.linalg.norm(axis, axis=1, keepdims=True)
    axis /= np.where(length > 0.0, length, 1.0)  # straight up or down: no axis, and nothing to correct
    angle = np.radians(degrees)
    turned = p * np.cos(angle) + np.cross(axis, p) * np.sin(angle)  # the axis is perpendicular to the point
    return np.where(length > 0.0, turned, p).astype(points.dtype)


def rings_by_order(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) uint8
    """Ring numbers from the top: KITTI's files hold the rings one after another, each from azimuth 0 counterclockwise. Points in
    another order get the nearest of evenly spaced rings."""
    azimuth = np.mod(np.arctan2(points[:, 1], points[:, 0]), 2.0 * np.pi)
    rings = np.concatenate([[0], np.cumsum(np.diff(azimuth) < -np.pi)]) if len(points) else np.zeros(0)
    if len(points) and rings[-1] >= _BEAMS:
        rings = _BEAMS - 1 - nearest_ring(points, ring_elevations("hdl64e"))
    return rings.astype(np.uint8)
