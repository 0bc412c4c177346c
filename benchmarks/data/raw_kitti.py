"""What KITTI's raw recordings lack, for all systems alike: point times, ring numbers, and the correction of elevations."""

from __future__ import annotations

import numpy as np

from benchmarks.data.rings import nearest_ring, ring_elevations, thinned_rows
from poli.beams.corrections import PERIOD, Spin
from poli.io.datasets import correct_elevation
from poli.scan import Scan

_BEAMS = 64


def prepared(scan: Scan, beams: int | None = None) -> Scan:
    """The scan thinned to `beams` of the 64, with the fields `time` (seconds from the stamp) and `ring`, and with corrected
    elevations. The order matters: rings are found by the order of the file, and thinned by the elevations as recorded."""
    scan = Scan(scan.points, {"ring": rings_by_order(scan.points)}, scan.stamp)
    if beams is not None:
        scan = scan.select(thinned_rows(scan.points, "hdl64e", beams))
    times = Spin().times(scan.points, PERIOD)
    return Scan(correct_elevation(scan.points), {**scan.fields, "time": times}, scan.stamp)


def rings_by_order(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) uint8
    """Ring numbers from the top: KITTI's files hold the rings one after another, each from azimuth 0 counterclockwise. Points in
    another order get the nearest of evenly spaced rings."""
    azimuth = np.mod(np.arctan2(points[:, 1], points[:, 0]), 2.0 * np.pi)
    rings = np.concatenate([[0], np.cumsum(np.diff(azimuth) < -np.pi)]) if len(points) else np.zeros(0)
    if len(points) and rings[-1] >= _BEAMS:
        rings = _BEAMS - 1 - nearest_ring(points, ring_elevations("hdl64e"))
    return rings.astype(np.uint8)
