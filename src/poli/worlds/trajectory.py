"""The motion of a vehicle along a route: smooth in all six degrees of freedom and known at every instant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.errors import InputError
from poli.kernel import kernel


class Spline:
    """A twice continuously differentiable curve through `points` at 0, `spacing`, 2 `spacing` and so on.

    The end conditions are "not a knot": the first two pieces are one cubic, and so are the last two.
    """

    def __init__(self, points: np.ndarray, spacing: float) -> None:  # (K, D), at least four points
        self._spacing = spacing
        slopes = _slopes(np.ascontiguousarray(points, np.float64), spacing)
        # The cubic of each piece from its ends and slopes (Hermite form), the highest power first.
        chord = np.diff(points, axis=0) / spacing
        bend = (slopes[:-1] + slopes[1:] - 2.0 * chord) / spacing
        self._pieces = bend / spacing, (chord - slopes[:-1]) / spacing - bend, slopes[:-1], points[:-1]  # (K - 1, D) each

    def __call__(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (M,) -> (M, D), (M, D)
        """Return points and derivatives. Beyond the ends the outermost cubics continue."""
        piece = np.clip((at / self._spacing).astype(np.int64), 0, len(self._pieces[0]) - 1)
        s = (at - piece * self._spacing)[:, None]
        a, b, c, d = (coefficient[piece] for coefficient in self._pieces)
        return d + c * s + b * (s * s) + a * (s * s * s), c + b * s * 2.0 + a * (s * s) * 3.0


def gaussian_smoothed(points: np.ndarray, sigma: float) -> np.ndarray:  # (K, D) -> (K, D)
    """Smooth with Gaussian weights up to 4 sigma away; beyond the ends the end points are repeated."""
    reach = int(4.0 * sigma + 0.5)
    weights = np.exp(-0.5 / sigma**2 * np.arange(-reach, reach + 1) ** 2)
    weights /= weights.sum()
    longer = np.pad(points, ((reach, reach), (0, 0)), mode="edge")
    smooth = points * weights[reach]
    for i in range(reach):
        smooth += (longer[i : i + len(points)] + longer[2 * reach - i : 2 * reach - i + len(points)]) * weights[i]
    return smooth


@kernel
def _slopes(points, h):  # (K, D) -> (K, D)
    """Return the derivatives m at the points. Neighboring cubics have the same second derivative where they meet,

        h m[i-1] + 4 h m[i] + h m[i+1] = 3 (y[i+1] - y[i-1]),

    and the first two and the last two pieces have the same third derivative:

        h m[0] + 2 h m[1] = (5 h (y[1] - y[0]) + h (y[2] - y[1])) / 2.

    The system is tridiagonal and solved by forward elimination.
    """
    n = len(points)
    diagonal, above, m = np.full(n, 4.0 * h), np.full(n, h), np.empty_like(points)
    diagonal[0] = diagonal[-1] = h
    above[0] = 2.0 * h
    for a in range(points.shape[1]):
        y = points[:, a]
        for i in range(1, n - 1):
            m[i, a] = 3.0 * (h * ((y[i] - y[i - 1]) / h) + h * ((y[i + 1] - y[i]) / h))
        m[0, a] = ((h + 4.0 * h) * h * ((y[1] - y[0]) / h) + h * h * ((y[2] - y[1]) / h)) / (2.0 * h)
        m[-1, a] = (h * h * ((y[-2] - y[-3]) / h) + (4.0 * h + h) * h * ((y[-1] - y[-2]) / h)) / (2.0 * h)
    for i in range(1, n):
        share = (2.0 * h if i == n - 1 else h) / diagonal[i - 1]
        diagonal[i] -= share * above[i - 1]
        for a in range(points.shape[1]):
            m[i, a] -= share * m[i - 1, a]
    for i in range(n - 1, -1, -1):
        for a in range(points.shape[1]):
            if i < n - 1:
                m[i, a] -= above[i] * m[i + 1, a]
            m[i, a] /= diagonal[i]
    return m


_SPACING = 0.5  # meters between the points of the path
_WAVES = 5


@dataclass(frozen=True)
class Ride:
    """The motion of the vehicle and the mounting of the sensor."""

    speed: float = 8.0  # m/s
    height: float = 1.8  # of the sensor above the ground, meters
    sway: float = 0.6  # degrees, one sigma of roll and pitch relative to the ground's slope
    heave: float = 0.02  # meters, one sigma
    mount: tuple[float, float] = (0.0, 0.0)  # roll and pitch of the sensor on the vehicle, degrees
    start: float = 0.0  # meters along the route
    turning: float = 0.0  # degrees, one sigma of yaw relative to the route: a hand turns the sensor about
    smoothing: float = 3.0  # meters: smoothing radius of the route's corners


WALK = Ride(speed=1.0, height=1.3, sway=2.0, heave=0.01, turning=10.0, smoothing=0.5)  # a sensor carried by hand


def usual_ride(kind: str) -> Ride:
    """Return how a sensor usually moves in a kind of place: rooms are walked through, elsewhere it drives."""
    return WALK if kind in ("rooms", "basement") else Ride()


class Trajectory:
    """The sensor's pose over time: `poses(times)` returns T_world_sensor at any instant until the end of the route (`duration`)."""

    def __init__(self, route: np.ndarray, ride: Ride = Ride(), seed: int = 0) -> None:  # (K, 3)  # noqa: B008
        route = np.asarray(route, dtype=np.float64)
        along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(route, axis=0), axis=1))])
        if not along[-1] > 3.0 * _SPACING:
            raise InputError(f"route is {along[-1]:.2f} m long; expected more than {3.0 * _SPACING} m")
        if not 0.0 <= ride.start < along[-1] or not ride.speed > 0.0:
            raise InputError(f"ride: start must be between 0 and {along[-1]:.0f} m, and speed positive")
        even = np.arange(0.0, along[-1], _SPACING)
        resampled = np.stack([np.interp(even, along, route[:, a]) for a in range(3)], axis=1)
        self._path = Spline(_smoothed(resampled, ride.smoothing / _SPACING), _SPACING)
        self._ride = ride
        self.duration = (even[-1] - ride.start) / ride.speed
        rng = np.random.default_rng([seed, 77])
        self._frequency = rng.uniform(0.2, 2.0, (3, _WAVES))  # hertz, of roll, pitch and heave
        self._phase = rng.uniform(0.0, 2.0 * np.pi, (3, _WAVES))
        sigma = np.array([np.deg2rad(ride.sway), np.deg2rad(ride.sway), ride.heave])
        self._amplitude = rng.rayleigh(1.0, (3, _WAVES)) * sigma[:, None] / np.sqrt(_WAVES)
        self._turns = np.stack([rng.uniform(0.1, 0.6, _WAVES), rng.uniform(0.0, 2.0 * np.pi, _WAVES), rng.rayleigh(1.0, _WAVES)])

    def poses(self, times: np.ndarray) -> np.ndarray:  # (M,) -> (M, 4, 4)
        """Return T_world_sensor at these seconds."""
        times = np.asarray(times, dtype=np.float64)
        if times.min(initial=0.0) < 0.0 or times.max(initial=0.0) > self.duration + 1e-9:
            raise InputError(f"times: no pose at {times.max():.1f} s; the ride lasts {self.duration:.1f} s")
        s = self._ride.start + self._ride.speed * times
        at, ahead = self._path(s)
        turns = 2.0 * np.pi * self._frequency[:, None] * times[:, None] + self._phase[:, None]  # (3, M, waves)
        roll, pitch, heave = (self._amplitude[:, None] * np.sin(turns)).sum(axis=2)
        slope = -np.arctan2(ahead[:, 2], np.hypot(ahead[:, 0], ahead[:, 1]))  # nose down is positive about y
        mount_roll, mount_pitch = np.deg2rad(self._ride.mount)
        yaw = np.arctan2(ahead[:, 1], ahead[:, 0])
        if self._ride.turning:
            frequency, phase, size = self._turns
            sway = np.sin(2.0 * np.pi * frequency * times[:, None] + phase) @ size / np.sqrt(_WAVES)
            yaw = yaw + np.deg2rad(self._ride.turning) * sway
        R = _rotation(yaw, slope + pitch + mount_pitch, roll + mount_roll)
        T = np.tile(np.eye(4), (len(times), 1, 1))
        T[:, :3, :3] = R
        T[:, :3, 3] = at + (self._ride.height + heave)[:, None] * np.array([0.0, 0.0, 1.0])
        return T


def _smoothed(points: np.ndarray, sigma: float) -> np.ndarray:  # (M, 3) -> (M, 3)
    """Gaussian smoothing of a route that is extended at its ends by point reflection, so the vehicle does not slow down there."""
    beyond = min(int(4.0 * sigma), len(points) - 1)
    longer = np.pad(points, ((beyond, beyond), (0, 0)), mode="reflect", reflect_type="odd")
    return gaussian_smoothed(longer, sigma)[beyond : beyond + len(points)]


def _rotation(yaw: np.ndarray, pitch: np.ndarray, roll: np.ndarray) -> np.ndarray:  # (M,) each -> (M, 3, 3)
    """Rotation about z, then y, then x of the vehicle."""
    cy, sy, cp, sp, cr, sr = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch), np.cos(roll), np.sin(roll)
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)
