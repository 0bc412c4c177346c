"""Fields made of fields: blended unions, cuts, shells, and bent, twisted or folded space."""

from functools import reduce

import numpy as np

from poli.data.shapes.implicit import Field
from poli.kernel import kernel


def union(fields: list[Field], blend: float = 0.0) -> Field:
    """Union of the fields, blended over a length of about `blend`."""
    return lambda points: reduce(lambda a, b: _smooth_minimum(a, b, blend), (field(points) for field in fields))


def intersection(first: Field, second: Field, blend: float = 0.0) -> Field:
    return lambda points: -_smooth_minimum(-first(points), -second(points), blend)


def difference(first: Field, second: Field, blend: float = 0.0) -> Field:
    """`first` without `second`."""
    return lambda points: -_smooth_minimum(-first(points), second(points), blend)


def shell(field: Field, thickness: float) -> Field:
    """The surface of `field` with a thickness, half of it on each side. Closed: cut it open to show its inside."""
    return lambda points: np.abs(field(points)) - 0.5 * thickness


def placed(field: Field, position: np.ndarray, rotation: np.ndarray, scale: float = 1.0) -> Field:
    """`field` scaled, then rotated by the (3, 3) matrix, then moved to `position`."""
    return lambda points: scale * field(_into_frame(points, position, rotation / scale))


def twisted(field: Field, turn: float) -> Field:
    """Twist about z by `turn` radians per unit of height."""

    def twist(points: np.ndarray) -> np.ndarray:
        cosine, sine = np.cos(turn * points[:, 2]), np.sin(turn * points[:, 2])
        x, y, z = points.T
        return np.stack([cosine * x + sine * y, cosine * y - sine * x, z], axis=1)

    return lambda points: field(twist(points))


def bent(field: Field, curvature: float) -> Field:
    """Bend the z axis towards x into an arc."""
    if abs(curvature) < 1e-3:
        return field

    def straighten(points: np.ndarray) -> np.ndarray:
        x, y, z = points.T
        towards = 1.0 - curvature * x
        # Behind the center of the arc the angle would jump; with the curvatures in use no shape reaches that far.
        angle = np.arctan2(curvature * z, towards)
        return np.stack([(1.0 - np.hypot(towards, curvature * z)) / curvature, y, angle / curvature], axis=1)

    return lambda points: field(straighten(points))


def tapered(field: Field, slope: float) -> Field:
    """Wider at the bottom and narrower at the top (slope > 0), linearly in z."""

    def field_of_tapered(points: np.ndarray) -> np.ndarray:
        width = np.clip(1.0 - slope * points[:, 2], 0.35, 1.8)
        return np.minimum(width, 1.0) * field(np.stack([points[:, 0] / width, points[:, 1] / width, points[:, 2]], axis=1))

    return field_of_tapered


def warped(field: Field, displacement: list[Field]) -> Field:
    """Evaluate `field` at points displaced by the three fields of `displacement`."""
    return lambda points: field(points + np.stack([shift(points) for shift in displacement], axis=1))


def repeated_around(field: Field, count: int) -> Field:
    """Repeat the part of `field` around the x axis `count` times about z."""

    def fold(points: np.ndarray) -> np.ndarray:
        sector = 2.0 * np.pi / count
        angle = np.arctan2(points[:, 1], points[:, 0])
        angle -= sector * np.round(angle / sector)
        radius = np.hypot(points[:, 0], points[:, 1])
        return np.stack([radius * np.cos(angle), radius * np.sin(angle), points[:, 2]], axis=1)

    return lambda points: field(fold(points))


def embossed(field: Field, pattern: Field, height: float) -> Field:
    """Raise the surface by `height` where `pattern` is 1 and lower it where it is -1."""
    return lambda points: field(points) - height * pattern(points)


@kernel
def _into_frame(points, position, axes):
    """(points - position) @ axes; several times faster than BLAS, which has a high overhead for three columns."""
    moved = np.empty_like(points)
    for n in range(len(points)):
        x, y, z = points[n, 0] - position[0], points[n, 1] - position[1], points[n, 2] - position[2]
        for k in range(3):
            moved[n, k] = x * axes[0, k] + y * axes[1, k] + z * axes[2, k]
    return moved


def _smooth_minimum(first: np.ndarray, second: np.ndarray, blend: float) -> np.ndarray:
    least = np.minimum(first, second)
    if blend <= 0.0:
        return least
    overlap = np.maximum(blend - np.abs(first - second), 0.0)
    return least - 0.25 * overlap * overlap / blend
