"""Per-point geometry: the radius of the point's group, its frame, and its additional inputs."""

from __future__ import annotations

import math

import numpy as np

from poli.ellipsoids.symmetric3 import eigh3
from poli.kernel import kernel, over_range
from poli.threads import run_chunks

SMALLEST_RADIUS = 1e-150  # in any unit: only groups of duplicates have less, and quotients by it stay finite
# Lengths enter the network as logarithms, clipped to this: from 6 micrometers to 160 kilometers.
CONTEXT_LIMIT = 12.0


def group_radii(centers, below, neighbors, k: int, step: int = 1) -> np.ndarray:  # (M, 3), (N, 3), (L, >= k) -> (M,)
    """Return the root mean square distance of the first k neighbors. Those of center i are in row i * `step`."""
    radii = np.empty(len(centers))
    run_chunks(over_range(_radii, centers, below, neighbors, k, step, radii), len(centers), smallest=4096)
    return radii


def spacing_per_radius(k: int) -> float:
    """Return the spacing of points on a plane, in root mean square distances of the k nearest others.

    The mean of their squared distances is about the area of (k + 1) / 2 points over pi."""
    return math.sqrt(2.0 * math.pi / (k + 1))


def principal_frames(points: np.ndarray, neighbors: np.ndarray) -> np.ndarray:  # (N, 3), (N, k) -> (N, 3, 3)
    """Return the principal axes of these neighbors, thinnest last; the first and the last point toward their mean."""
    covariances, means = np.empty((len(points), 3, 3)), np.empty((len(points), 3))
    run_chunks(over_range(_moments, points, neighbors, covariances, means), len(points))
    axes = eigh3(covariances)[1][:, :, ::-1]  # longest first
    x, z = axes[:, :, 0], axes[:, :, 2]
    x = x * np.where(np.einsum("ni,ni->n", means, x) < 0, -1.0, 1.0)[:, None]
    z = z * np.where(np.einsum("ni,ni->n", means, z) < 0, -1.0, 1.0)[:, None]
    return np.stack([x, np.cross(z, x), z], axis=2)


def describe(  # (N, 3), (N, >= k), (N, 3) or None, (3,) or None, (N, 3, 3) or None
    positions: np.ndarray,
    near: np.ndarray,
    k: int,
    scale: float,
    rays: np.ndarray | None,
    up: np.ndarray | None,
    frames: np.ndarray | None,
    log_scale: bool,
    sensor: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (N, 3, 3) float32, (N,), (N, log_scale + 8 sensor) float32
    """Return the frame of each point, the radius of its group of k neighbors, and the network's inputs in addition to the group.

    Where no frames are given, their axes are horizontally away from the sensor, across, and up; straight above or below the sensor,
    the first is any horizontal direction.

    The inputs are the logarithm of the group's radius in meters (`positions` are meters times `scale`); the directions to the
    sensor and up, in the point's frame; the logarithm of the range; and the height above the sensor, compressed by asinh. Unknown
    values are zero, which no known direction is."""
    count, seen, upright = len(positions), rays is not None, up is not None
    found = np.empty((count, 3, 3), np.float32)
    radii, context = np.empty(count), np.zeros((count, int(log_scale) + 8 * int(sensor)), np.float32)
    if up is None:
        up = spare = np.zeros(3)
    else:
        spare = np.cross(up, np.eye(3)[np.abs(up).argmin()])
        spare /= np.linalg.norm(spare)
    given = frames is not None
    given_frames = np.empty((1, 3, 3)) if frames is None else frames
    known = (given_frames, given, np.zeros((1, 3)) if rays is None else rays, seen, up, upright)
    args = (positions, near, k, scale, *known, spare, log_scale, sensor)
    run_chunks(over_range(_describe, *args, found, radii, context), count, smallest=1024)
    return found, radii, context


@kernel
def _radii(centers, below, neighbors, k, step, begin, end, radii):
    for i in range(begin, end):
        x, y, z = centers[i, 0], centers[i, 1], centers[i, 2]
        total = 0.0
        for j in range(k):
            n = neighbors[i * step, j]
            total += (below[n, 0] - x) ** 2 + (below[n, 1] - y) ** 2 + (below[n, 2] - z) ** 2
        radii[i] = max(np.sqrt(total / max(k, 1)), SMALLEST_RADIUS)


@kernel
def _describe(
    positions, near, k, scale, given, is_given, rays, seen, up, upright, spare, log_scale, sensor, begin, end,
    frames, radii, context,
):  # fmt: skip
    _radii(positions, positions, near, k, 1, begin, end, radii)
    F, first = np.empty((3, 3)), 1 if log_scale else 0
    for i in range(begin, end):
        x, y, z = 0.0, 0.0, 0.0
        if seen:
            x, y, z = rays[i, 0], rays[i, 1], rays[i, 2]
        if is_given:
            F[:] = given[i]
        else:
            _sensor_frame(x, y, z, up, spare, F)
        for a in range(3):
            for b in range(3):
                frames[i, a, b] = F[a, b]
        if log_scale:
            context[i, 0] = max(min(np.log(radii[i] / scale), CONTEXT_LIMIT), -CONTEXT_LIMIT)
        if sensor and seen:
            length = max(np.sqrt(x * x + y * y + z * z), 1e-3)
            for a in range(3):
                context[i, first + a] = -(F[0, a] * x + F[1, a] * y + F[2, a] * z) / length
            context[i, first + 6] = min(np.log(length) - 2.5, CONTEXT_LIMIT)
        if sensor and upright:
            for a in range(3):
                context[i, first + 3 + a] = F[0, a] * up[0] + F[1, a] * up[1] + F[2, a] * up[2]
            context[i, first + 7] = max(min(np.arcsinh(x * up[0] + y * up[1] + z * up[2]), CONTEXT_LIMIT), -CONTEXT_LIMIT)


@kernel
def _sensor_frame(x, y, z, up, spare, F):
    """Write the frame of a point in the direction (x, y, z) from the sensor."""
    ax, ay, az = up[1] * z - up[2] * y, up[2] * x - up[0] * z, up[0] * y - up[1] * x
    length = np.sqrt(ax * ax + ay * ay + az * az)
    # Meters from the vertical line through the sensor. Closer, all directions are equally good, so the exact threshold does not
    # matter: coordinates of a scan are rounded to 1e-6 m or more.
    if length > 1e-6:
        ax, ay, az = ax / length, ay / length, az / length
    else:
        ax, ay, az = spare[0], spare[1], spare[2]
    F[0, 0], F[0, 1], F[0, 2] = ay * up[2] - az * up[1], ax, up[0]
    F[1, 0], F[1, 1], F[1, 2] = az * up[0] - ax * up[2], ay, up[1]
    F[2, 0], F[2, 1], F[2, 2] = ax * up[1] - ay * up[0], az, up[2]


@kernel
def _moments(points, neighbors, begin, end, covariances, means):
    """Weighted mean and second moments of the nearest neighbors, relative to the point; weights fall with the cube of the distance.

    Measured on clouds of objects, the thin axis of these moments is closer to the normal than that of any unweighted PCA: close
    neighbors lie on the same sheet. Half of the mean is subtracted: the point itself is an equally good estimate of the position
    of the sheet.
    """
    k = neighbors.shape[1]
    weights = np.empty(k)
    for i in range(begin, end):
        total, spread = 0.0, 0.0
        for j in range(k):
            n = neighbors[i, j]
            weights[j] = (
                (points[n, 0] - points[i, 0]) ** 2 + (points[n, 1] - points[i, 1]) ** 2 + (points[n, 2] - points[i, 2]) ** 2
            )
            spread += weights[j] / k
        for j in range(k):
            weights[j] = (weights[j] / spread + 1e-3) ** -1.5 if spread > 0.0 else 1.0
            total += weights[j]
        for a in range(3):
            means[i, a] = 0.0
            for b in range(3):
                covariances[i, a, b] = 0.0
        for j in range(k):
            n, weight = neighbors[i, j], weights[j] / total
            for a in range(3):
                da = points[n, a] - points[i, a]
                means[i, a] += weight * da
                for b in range(a + 1):
                    covariances[i, a, b] += weight * da * (points[n, b] - points[i, b])
        for a in range(3):
            for b in range(a + 1):
                covariances[i, a, b] -= 0.75 * means[i, a] * means[i, b]  # (x - m / 2)(x - m / 2)' on average
                covariances[i, b, a] = covariances[i, a, b]
