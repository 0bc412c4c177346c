"""Deskew scans: correct points measured at different times for the motion of the sensor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poli.errors import InputError
from poli.scan import Scan
from poli.se3 import hat


def deskew(scan: Scan, velocity: np.ndarray) -> Scan:  # (6,) rotation and translation per second, in the sensor frame
    """Move all points to the sensor frame at the scan's stamp. Needs the field `time`, in seconds from the stamp.

    A point measured at time s becomes Exp(s velocity) p. This is exact for a constant velocity in the sensor frame.
    """
    if "time" not in scan.fields:
        raise InputError("deskewing needs the time of each point, but the scan has no field 'time'")
    times = np.asarray(scan.fields["time"], np.float64)
    if not np.isfinite(times).all():
        raise InputError("deskewing: some points have no finite time; drop them first")
    R, t = _exponentials(times, np.asarray(velocity, np.float64))
    points = np.einsum("nij,nj->ni", R, scan.points.astype(np.float64)) + t
    return replace(scan, points=points.astype(scan.points.dtype))


def _exponentials(times: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N,) -> (N, 3, 3), (N, 3)
    """Return Exp(s velocity) for all s at once: the axis is the same, only the angle differs."""
    rate = float(np.linalg.norm(velocity[:3]))
    if rate < 1e-9:
        return np.tile(np.eye(3), (len(times), 1, 1)), times[:, None] * velocity[3:]
    k = hat(velocity[:3] / rate)
    kk = k @ k
    angle = rate * times
    sine, versine = np.sin(angle)[:, None, None], (1.0 - np.cos(angle))[:, None, None]
    R = np.eye(3) + sine * k + versine * kk
    # The integral of the rotation over time, applied to the translation.
    along, turned, twice = velocity[3:], k @ velocity[3:], kk @ velocity[3:]
    t = times[:, None] * along + ((1.0 - np.cos(angle)) / rate)[:, None] * turned + (times - np.sin(angle) / rate)[:, None] * twice
    return R, t
