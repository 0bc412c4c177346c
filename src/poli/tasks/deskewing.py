"""Deskew scans: correct points measured at different times for the motion of the sensor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from poli.errors import InputError
from poli.kernel import kernel, over_range
from poli.scan import Scan
from poli.se3 import hat, inverse, log
from poli.threads import run_chunks

_AT_REST = 1e-9  # radians per second
_CHUNK = 4096  # points


def deskew(scan: Scan, velocity: np.ndarray) -> Scan:  # (6,) rotation and translation per second, in the sensor frame
    """Move all points to the sensor frame at the scan's stamp. Needs the field `time`, in seconds from the stamp, and removes it,
    so that no scan is deskewed twice.

    A point measured at time s becomes Exp(s velocity) p. This is exact for a constant velocity in the sensor frame.
    """
    if "time" not in scan.fields:
        raise InputError("deskewing needs the time of each point, but the scan has no field 'time'")
    times = np.asarray(scan.fields["time"], np.float64)
    if not np.isfinite(times).all():
        raise InputError("deskewing: some points have no finite time; drop them first")
    points = at_stamp(scan.points.astype(np.float64), times, np.asarray(velocity, np.float64))
    return replace(scan, points=points.astype(scan.points.dtype)).without("time")


@dataclass(frozen=True, eq=False)
class Sweep:
    """A scan measured while the sensor moved from the pose of the scan before it, at constant velocity.

    The velocity that deskews the points must agree with the one that the pose implies. Otherwise an error of one moves the other,
    and over the following scans it decays slowly or not at all. The points are therefore a function of the pose.
    """

    points: np.ndarray  # (N, 3) as measured, float64
    times: np.ndarray  # (N,) seconds from the stamp
    T_target_before: np.ndarray  # (4, 4) pose of the scan before
    elapsed: float  # seconds between the two stamps

    @property
    def follow(self) -> np.ndarray:  # (N,)
        """How far each point moves in the target if the pose moves by 1: Exp(s log(T_before^-1 T Exp(dx)) / elapsed) moves it by
        s / elapsed times as much, in addition to the pose itself. Exact for small rotations within the scan."""
        return 1.0 + self.times / self.elapsed

    def velocity(self, T_target_source: np.ndarray) -> np.ndarray:  # (4, 4) -> (6,)
        return log(inverse(self.T_target_before) @ T_target_source) / self.elapsed

    def means(self, T_target_source: np.ndarray) -> np.ndarray:  # (4, 4) -> (N, 3)
        """The points in the sensor frame at the stamp, if this is the pose there."""
        return at_stamp(self.points, self.times, self.velocity(T_target_source))


def at_stamp(points: np.ndarray, times: np.ndarray, velocity: np.ndarray) -> np.ndarray:  # (N, 3), (N,), (6,) -> (N, 3)
    """Return Exp(s velocity) p of all points p and times s."""
    rate = float(np.linalg.norm(velocity[:3]))
    if rate < _AT_REST:
        return points + times[:, None] * velocity[3:]
    axis = velocity[:3] / rate
    # With a = rate s and the axis k: Exp(s velocity) p = p + sin a k x p + (1 - cos a) k x (k x p)
    #     + s v + (1 - cos a) / rate k x v + (s - sin a / rate) k x (k x v)
    turned = hat(axis) @ velocity[3:]
    terms = np.concatenate([axis, velocity[3:], turned / rate, hat(axis) @ turned / rate])
    out = np.empty_like(points)
    run_chunks(over_range(_at_stamp, points, times, rate, terms, out), len(points), _CHUNK)
    return out


@kernel
def _at_stamp(points, times, rate, terms, begin, end, out):
    kx, ky, kz, vx, vy, vz, ax, ay, az, bx, by, bz = terms
    for i in range(begin, end):
        x, y, z, s = points[i, 0], points[i, 1], points[i, 2], times[i]
        a = rate * s
        sine, versine = np.sin(a), 1.0 - np.cos(a)
        cx, cy, cz = ky * z - kz * y, kz * x - kx * z, kx * y - ky * x
        dx, dy, dz = ky * cz - kz * cy, kz * cx - kx * cz, kx * cy - ky * cx
        rest = a - sine
        out[i, 0] = x + sine * cx + versine * (dx + ax) + s * vx + rest * bx
        out[i, 1] = y + sine * cy + versine * (dy + ay) + s * vy + rest * by
        out[i, 2] = z + sine * cz + versine * (dz + az) + s * vz + rest * bz
