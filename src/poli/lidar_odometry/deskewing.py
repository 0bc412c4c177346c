"""Deskew scans: correct points measured at different times for the motion of the sensor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from poli.beams.corrections import Spin
from poli.errors import InputError
from poli.kernel import kernel, over_range
from poli.scan import Scan
from poli.se3_kernels import log_kernel
from poli.threads import run_chunks

_AT_REST = 1e-9  # radians per second
_CHUNK = 4096  # points
MOTION = 13  # numbers that describe a motion during a scan, see `_motion`
_LONGEST = 1.5  # times the interval between scans: no scan lasts longer, so such times have another unit or origin
_FARTHEST = 1.0  # seconds of a point from the stamp of its scan
_SHORTEST = 1e-4  # seconds: a shorter scan has no skew worth correcting (3 mm at 30 m/s)


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

    def motion(self, T_target_source: np.ndarray) -> np.ndarray:  # (4, 4) -> (MOTION,)
        """The motion during the scan, for `moved`, if this is the pose at its stamp."""
        return motion_between(self.T_target_before, T_target_source, self.elapsed)

    def means(self, T_target_source: np.ndarray) -> np.ndarray:  # (4, 4) -> (N, 3)
        """The points in the sensor frame at the stamp, if this is the pose there."""
        return _all_moved(self.points, self.times, self.motion(T_target_source))


def at_stamp(points: np.ndarray, times: np.ndarray, velocity: np.ndarray) -> np.ndarray:  # (N, 3), (N,), (6,) -> (N, 3)
    """Return Exp(s velocity) p of all points p and times s."""
    return _all_moved(points, times, _motion(np.asarray(velocity, np.float64)))


def _all_moved(points: np.ndarray, times: np.ndarray, motion: np.ndarray) -> np.ndarray:  # (N, 3), (N,), (MOTION,) -> (N, 3)
    out = np.empty_like(points)
    run_chunks(over_range(_at_stamp, points, times, motion, out), len(points), _CHUNK)
    return out


@kernel
def motion_between(T_before, T, elapsed):
    """Return the constant motion that leads from one pose to another in a time, for `moved`."""
    R, S, t, s = T_before[:3, :3], T[:3, :3], T_before[:3, 3], T[:3, 3]
    D, d = np.empty((3, 3)), np.empty(3)  # inverse(T_before) @ T
    for a in range(3):
        d[a] = R[0, a] * (s[0] - t[0]) + R[1, a] * (s[1] - t[1]) + R[2, a] * (s[2] - t[2])
        for b in range(3):
            D[a, b] = R[0, a] * S[0, b] + R[1, a] * S[1, b] + R[2, a] * S[2, b]
    return _motion(log_kernel(D, d) / elapsed)


@kernel
def _motion(velocity):
    """Return (rate, axis k, v, k x v / rate, k x (k x v) / rate) of a velocity (rotation, v); without rotation, only v."""
    kx, ky, kz, vx, vy, vz = velocity
    out = np.zeros(MOTION)
    out[4], out[5], out[6] = vx, vy, vz
    rate = np.sqrt(kx * kx + ky * ky + kz * kz)
    if rate < _AT_REST:
        return out
    kx, ky, kz = kx / rate, ky / rate, kz / rate
    ax, ay, az = (ky * vz - kz * vy) / rate, (kz * vx - kx * vz) / rate, (kx * vy - ky * vx) / rate
    out[0], out[1], out[2], out[3], out[7], out[8], out[9] = rate, kx, ky, kz, ax, ay, az
    out[10], out[11], out[12] = ky * az - kz * ay, kz * ax - kx * az, kx * ay - ky * ax
    return out


@kernel(inline="always")
def moved(x, y, z, s, motion):
    """Return Exp(s velocity) p. With a = rate s and the axis k, it is p + sin a k x p + (1 - cos a) k x (k x p)
    + s v + (1 - cos a) / rate k x v + (s - sin a / rate) k x (k x v)."""
    kx, ky, kz = motion[1], motion[2], motion[3]
    a = motion[0] * s
    sine, versine = np.sin(a), 1.0 - np.cos(a)
    cx, cy, cz = ky * z - kz * y, kz * x - kx * z, kx * y - ky * x
    dx, dy, dz = ky * cz - kz * cy, kz * cx - kx * cz, kx * cy - ky * cx
    rest = a - sine
    return (
        x + sine * cx + versine * (dx + motion[7]) + s * motion[4] + rest * motion[10],
        y + sine * cy + versine * (dy + motion[8]) + s * motion[5] + rest * motion[11],
        z + sine * cz + versine * (dz + motion[9]) + s * motion[6] + rest * motion[12],
    )


@kernel
def _at_stamp(points, times, motion, begin, end, out):
    for i in range(begin, end):
        out[i, 0], out[i, 1], out[i, 2] = moved(points[i, 0], points[i, 1], points[i, 2], times[i], motion)


class PointTimes:
    """Decides whether and how scans are deskewed: by the times of their points, by their azimuth, or not at all. `said` explains
    the last decision."""

    def __init__(self, mode: str | bool, spin: Spin | None = None) -> None:  # a `Deskew` mode
        self._mode, self._spin = mode, spin or Spin()
        self.said = "deskewing is off"

    def __call__(self, scan: Scan, period: float) -> Scan:  # seconds between scans
        """Return the scan with the field `time` if it is to be deskewed, and without it if not."""
        if self._mode == "azimuth":
            self.said = (
                f"deskewed by azimuth ({'clockwise' if self._spin.clockwise else 'counterclockwise'}, {period:.3g} s a turn)"
            )
            return self._spin.with_times(scan, period)
        problem = "deskewing is off" if self._mode == "off" else _problem(scan, period)
        if not problem:
            self.said = "deskewed by the times of the points"
            return scan
        if self._mode == "on":
            raise InputError(
                f"the scan cannot be deskewed: {problem}; for a spinning sensor without point times, pass deskew='azimuth'"
            )
        self.said = problem if self._mode == "off" else f"not deskewed: {problem}"
        return scan.without("time")


def _problem(scan: Scan, period: float) -> str:
    """Return why the times of the points cannot be used, or an empty string."""
    if "time" not in scan.fields:
        return "points have no times (field 'time')"
    times = np.asarray(scan.fields["time"], np.float64)
    if times.ndim != 1 or not np.isfinite(times).all():
        return "some points have no finite time"
    if not len(times):
        return ""
    earliest, latest = float(times.min()), float(times.max())
    if latest - earliest < _SHORTEST:
        return "all points have the same time"
    if max(-earliest, latest) > _FARTHEST:
        return f"point times reach {max(-earliest, latest):.3g} s from the stamp of the scan, more than {_FARTHEST:g} s"
    if latest - earliest > _LONGEST * period:
        return f"point times span {latest - earliest:.3g} s, but the next scan follows after {period:.3g} s"
    return ""
