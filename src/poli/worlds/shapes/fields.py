"""Solids as fields: a field returns the approximate signed distance of each point to the surface, negative inside."""

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from poli.kernel import kernel

Field = Callable[[np.ndarray], np.ndarray]  # (N, 3) -> (N,)


def ellipsoid(radii: np.ndarray) -> Field:  # (3,)
    """An ellipsoid."""

    def field(points: np.ndarray) -> np.ndarray:
        scaled = points / radii
        level = _length(scaled)
        return level * (level - 1.0) / (_length(scaled / radii) + 1e-12)

    return field


def superquadric(radii: np.ndarray, upright: float, around: float) -> Field:
    """Exponents: 1 is an ellipsoid, near 0 a box, 2 an octahedron."""

    def field(points: np.ndarray) -> np.ndarray:
        x, y, z = (np.abs(points / radii) + 1e-9).T
        flat = (x ** (2.0 / around) + y ** (2.0 / around)) ** (around / upright)
        level = (flat + z ** (2.0 / upright)) ** (0.5 * upright)
        return _length(points) * (1.0 - 1.0 / level)

    return field


def rounded_box(half_sides: np.ndarray, rounding: float) -> Field:  # (3,)
    """A box with rounded edges."""

    def field(points: np.ndarray) -> np.ndarray:
        beyond = np.abs(points) - (half_sides - rounding)
        farthest = np.maximum(np.maximum(beyond[:, 0], beyond[:, 1]), beyond[:, 2])
        return _length(np.maximum(beyond, 0.0)) + np.minimum(farthest, 0.0) - rounding

    return field


def torus(ring: float, tube: float) -> Field:
    """A torus around z."""
    return lambda points: np.hypot(np.hypot(points[:, 0], points[:, 1]) - ring, points[:, 2]) - tube


def extrusion(outline: np.ndarray, half_height: float, rounding: float = 0.0) -> Field:  # (K, 2)
    """The polygon `outline` in the xy plane, from -half_height to half_height in z."""

    def field(points: np.ndarray) -> np.ndarray:
        side = polygon_distance(np.ascontiguousarray(points[:, :2]), outline) + rounding
        end = np.abs(points[:, 2]) - half_height + rounding
        return np.minimum(np.maximum(side, end), 0.0) + np.hypot(np.maximum(side, 0.0), np.maximum(end, 0.0)) - rounding

    return field


def revolution(profile: np.ndarray) -> Field:  # (K, 2) of radius and height
    """The polygon `profile` revolved about the z axis."""
    return lambda points: polygon_distance(np.stack([np.hypot(points[:, 0], points[:, 1]), points[:, 2]], axis=1), profile)


def limbs(ends: np.ndarray, radii: np.ndarray, blend: float) -> Field:  # (K, 2, 3), (K, 2)
    """Tapered capsules between pairs of ends, blended over a length of about `blend`."""
    return lambda points: limb_distance(points, ends, radii, blend)


def membranes(triangles: np.ndarray, thickness: float) -> Field:  # (K, 3, 3)
    """Triangles with a rounded thickness: wings, fins, plates."""
    return lambda points: triangle_distance(points, triangles) - 0.5 * thickness


def _length(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("nd,nd->n", vectors, vectors))  # takes a third of the time of np.linalg.norm along an axis


@kernel
def polygon_distance(points, polygon):
    """Signed distance of points (N, 2) to a closed polygon with corners (K, 2), negative inside."""
    distance = np.empty(len(points))
    for n in range(len(points)):
        px, py = points[n, 0], points[n, 1]
        nearest = np.inf
        is_inside = False
        ax, ay = polygon[-1, 0], polygon[-1, 1]
        for k in range(len(polygon)):
            bx, by = polygon[k, 0], polygon[k, 1]
            ux, uy = bx - ax, by - ay
            along = ((px - ax) * ux + (py - ay) * uy) / (ux * ux + uy * uy + 1e-18)
            along = min(max(along, 0.0), 1.0)
            dx, dy = px - ax - along * ux, py - ay - along * uy
            nearest = min(nearest, dx * dx + dy * dy)
            if (ay > py) != (by > py) and px < ax + (py - ay) * ux / uy:  # a ray towards +x crosses this side
                is_inside = not is_inside
            ax, ay = bx, by
        distance[n] = -np.sqrt(nearest) if is_inside else np.sqrt(nearest)
    return distance


@kernel
def limb_distance(points, ends, radii, blend):
    """Return the distance of points to tapered limbs that blend into each other; negative inside."""
    distance = np.empty(len(points))
    for n in range(len(points)):
        px, py, pz = points[n, 0], points[n, 1], points[n, 2]
        total = 1e9
        for k in range(len(ends)):
            ax, ay, az = ends[k, 0, 0], ends[k, 0, 1], ends[k, 0, 2]
            ux, uy, uz = ends[k, 1, 0] - ax, ends[k, 1, 1] - ay, ends[k, 1, 2] - az
            dx, dy, dz = px - ax, py - ay, pz - az
            along = (dx * ux + dy * uy + dz * uz) / (ux * ux + uy * uy + uz * uz + 1e-18)
            along = min(max(along, 0.0), 1.0)
            dx, dy, dz = dx - along * ux, dy - along * uy, dz - along * uz
            radius = radii[k, 0] + along * (radii[k, 1] - radii[k, 0])
            one = np.sqrt(dx * dx + dy * dy + dz * dz) - radius
            gap = abs(one - total)
            # Thin limbs get a smaller blend; otherwise they would swell where they meet.
            reach = min(blend, 1.5 * radius)
            total = min(one, total)
            if gap < reach:
                total -= 0.25 * (reach - gap) * (reach - gap) / reach
        distance[n] = total
    return distance


@kernel
def triangle_distance(points, triangles):
    """Unsigned distance of (N, 3) points to the nearest of (K, 3, 3) triangles."""
    distance = np.full(len(points), np.inf)
    for k in range(len(triangles)):
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        normal = np.cross(b - a, c - a)
        square = normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2] + 1e-18
        for n in range(len(points)):
            p = points[n]
            is_above = True  # the point projects into the triangle, so the plane is nearest
            nearest = np.inf
            for side in range(3):
                start, end = (a, b) if side == 0 else ((b, c) if side == 1 else (c, a))
                ux, uy, uz = end[0] - start[0], end[1] - start[1], end[2] - start[2]
                dx, dy, dz = p[0] - start[0], p[1] - start[1], p[2] - start[2]
                # (u x d) . normal < 0: beyond this side
                turn = (uy * dz - uz * dy) * normal[0] + (uz * dx - ux * dz) * normal[1] + (ux * dy - uy * dx) * normal[2]
                if turn < 0.0:
                    is_above = False
                along = (dx * ux + dy * uy + dz * uz) / (ux * ux + uy * uy + uz * uz + 1e-18)
                along = min(max(along, 0.0), 1.0)
                dx, dy, dz = dx - along * ux, dy - along * uy, dz - along * uz
                nearest = min(nearest, dx * dx + dy * dy + dz * dz)
            if is_above:
                height = (p[0] - a[0]) * normal[0] + (p[1] - a[1]) * normal[1] + (p[2] - a[2]) * normal[2]
                nearest = height * height / square
            distance[n] = min(distance[n], np.sqrt(nearest))
    return distance


def union(fields: list[Field], blend: float = 0.0) -> Field:
    """Union of the fields, blended over a length of about `blend`."""
    return lambda points: reduce(lambda a, b: _smooth_minimum(a, b, blend), (field(points) for field in fields))


def intersection(first: Field, second: Field, blend: float = 0.0) -> Field:
    """What is in both."""
    return lambda points: -_smooth_minimum(-first(points), -second(points), blend)


def difference(first: Field, second: Field, blend: float = 0.0) -> Field:
    """`first` without `second`."""
    return lambda points: -_smooth_minimum(-first(points), second(points), blend)


def shell(field: Field, thickness: float) -> Field:
    """The surface of `field` with a thickness, half of it on each side. Closed: cut it open to show its inside."""
    return lambda points: np.abs(field(points)) - 0.5 * thickness


def placed(field: Field, position: ArrayLike, rotation: np.ndarray | None = None) -> Field:
    """`field` rotated by the (3, 3) matrix, if given, then moved to `position`."""
    at, axes = np.asarray(position, float), np.asarray(np.eye(3) if rotation is None else rotation, float)
    return lambda points: field(_into_frame(points, at, axes))


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
