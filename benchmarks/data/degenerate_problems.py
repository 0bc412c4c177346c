"""Degenerate pose problems by kind, whose data do not determine the pose, and sound ones for comparison.

Each kind is a function of a random generator that returns one problem (source, target, weights), rotated and shifted at random.
`nudged` perturbs a degenerate problem slightly, so that the pose is determined in principle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.data.pose_problems import hostile_problem, random_problem, random_rotations

Problem = tuple[np.ndarray, np.ndarray, np.ndarray]  # (N, 3), (N, 3), (N, 3, 3)
_EYE = np.eye(3)
_GOLDEN = (1 + np.sqrt(5)) / 2


def _signs(*patterns: tuple[float, float, float]) -> np.ndarray:
    """All vertices given by the patterns, with every choice of signs and every cyclic order."""
    found = {
        tuple(np.roll(np.array(p) * s, turn))
        for p in patterns
        for s in np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), -1).reshape(-1, 3)
        for turn in range(3)
    }
    return np.array(sorted(found))


_SOLIDS = (
    np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]),
    np.concatenate([_EYE, -_EYE]),
    _signs((1.0, 1.0, 1.0)),
    _signs((0.0, 1.0, _GOLDEN)),
    _signs((1.0, 1.0, 1.0), (0.0, 1 / _GOLDEN, _GOLDEN)),
)


def _moved(rng: np.random.Generator, source: np.ndarray, target: np.ndarray, weights: np.ndarray, far: float = 0.0) -> Problem:
    """Scale the problem, rotate it half of the time (rounding favors axes), and shift it by up to `far` times its size."""
    scale = 10.0 ** rng.uniform(-3, 3)
    A, B = random_rotations(rng, 2) if rng.random() < 0.5 else (_EYE, _EYE)
    shift = scale * 10.0 ** rng.uniform(0, np.log10(far), 2) if far else np.zeros(2)
    source = scale * source @ A.T + shift[0] * rng.standard_normal(3)
    target = scale * target @ B.T + shift[1] * rng.standard_normal(3)
    weights = 10.0 ** rng.uniform(-6, 6) * B @ weights @ B.T
    return source, target, 0.5 * (weights + weights.swapaxes(1, 2))


def _identity(count: int) -> np.ndarray:
    return np.tile(_EYE, (count, 1, 1))


def _whitened(rng: np.random.Generator, count: int) -> np.ndarray:
    cloud = rng.standard_normal((count, 3))
    cloud -= cloud.mean(axis=0)
    return np.linalg.qr(cloud)[0] * np.sqrt(count)


def solids(rng: np.random.Generator, far: float = 0.0) -> Problem:
    cloud = _SOLIDS[rng.integers(len(_SOLIDS))]
    mirror = -_EYE if rng.random() < 0.5 else np.diag([-1.0, 1, 1])
    return _moved(rng, cloud, cloud @ mirror, _identity(len(cloud)), far)


def prisms(rng: np.random.Generator) -> Problem:
    """Tall prisms: their two equal spreads are the smallest, so a mirror image leaves the rotation in their plane undetermined."""
    corners = int(rng.integers(3, 12))
    angles = 2 * np.pi * np.arange(corners) / corners
    base = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    height = rng.uniform(1.0, 5.0)
    cloud = np.concatenate([np.column_stack([base, np.full(corners, z)]) for z in (-height, height)])
    return _moved(rng, cloud, cloud @ np.diag([-1.0, 1, 1]), _identity(len(cloud)))


def whitened(rng: np.random.Generator, far: float = 0.0) -> Problem:
    cloud = _whitened(rng, int(rng.integers(5, 60)))
    return _moved(rng, cloud, -cloud, _identity(len(cloud)), far)


def one_target(rng: np.random.Generator) -> Problem:
    cloud = rng.standard_normal((int(rng.integers(4, 60)), 3))
    return _moved(rng, cloud, np.zeros_like(cloud), _identity(len(cloud)))


def shared_weight(rng: np.random.Generator) -> Problem:
    cloud = _whitened(rng, int(rng.integers(5, 60)))
    axes = random_rotations(rng, 1)[0]
    weight = axes @ np.diag(10.0 ** rng.uniform(-1, 1, 3)) @ axes.T
    return _moved(rng, cloud, np.zeros_like(cloud), np.tile(weight, (len(cloud), 1, 1)))


def _planes(normals: np.ndarray) -> np.ndarray:
    return np.einsum("ni,nj->nij", normals, normals)


def _units(rng: np.random.Generator, count: int) -> np.ndarray:
    directions = rng.standard_normal((count, 3))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def five_planes(rng: np.random.Generator) -> Problem:
    source = rng.standard_normal((5, 3))
    target = source + 0.1 * rng.standard_normal((5, 3)) if rng.random() < 0.5 else rng.standard_normal((5, 3))
    return _moved(rng, source, target, _planes(_units(rng, 5)))


def sphere_planes(rng: np.random.Generator) -> Problem:
    normals = _units(rng, int(rng.integers(8, 80)))
    return _moved(rng, normals, normals, _planes(normals))


def revolution_planes(rng: np.random.Generator) -> Problem:
    """Points and normals of a surface of revolution: the rotation about its axis is unconstrained."""
    count = int(rng.integers(10, 80))
    height, angle = rng.uniform(-1, 1, count), rng.uniform(0, 2 * np.pi, count)
    bend, width = rng.uniform(-0.8, 0.8), rng.uniform(0.5, 1.0)
    radius, slope = width + bend * height**2, 2 * bend * height
    cosine, sine = np.cos(angle), np.sin(angle)
    points = np.column_stack([radius * cosine, radius * sine, height])
    normals = np.column_stack([cosine, sine, -slope]) / np.sqrt(1 + slope**2)[:, None]
    return _moved(rng, points, points, _planes(normals))


def cylinder_planes(rng: np.random.Generator) -> Problem:
    count = int(rng.integers(10, 80))
    angle = rng.uniform(0, 2 * np.pi, count)
    normals = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    points = normals + np.outer(rng.uniform(-3, 3, count), [0.0, 0, 1])
    return _moved(rng, points, points, _planes(normals))


def corridor(rng: np.random.Generator) -> Problem:
    """Two pairs of parallel walls: translation along them is unconstrained."""
    count = int(rng.integers(12, 100))
    normals = np.array([[0.0, 1, 0], [0, 0, 1]])[rng.integers(0, 2, count)]
    points = rng.uniform(-1, 1, (count, 3)) * [10, 1, 1]
    return _moved(rng, points, points, _planes(normals))


def one_plane(rng: np.random.Generator) -> Problem:
    count = int(rng.integers(4, 60))
    points = rng.uniform(-1, 1, (count, 3)) * [1, 1, 0]
    return _moved(rng, points, points, _planes(np.tile([0.0, 0, 1], (count, 1))))


def screw_planes(rng: np.random.Generator) -> Problem:
    """Normals orthogonal to a screw motion, w x p + h w: a surface that slides along itself like a bolt in its nut."""
    count, pitch = int(rng.integers(10, 80)), rng.uniform(0.1, 2.0)
    points = rng.standard_normal((count, 3))
    way = np.cross([0.0, 0, 1], points) + [0, 0, pitch]
    normals = np.cross(way, rng.standard_normal((count, 3)))
    return _moved(rng, points, points, _planes(normals / np.linalg.norm(normals, axis=1, keepdims=True)))


def collinear(rng: np.random.Generator, far: float = 0.0) -> Problem:
    count = int(rng.integers(3, 60))
    points = np.outer(rng.standard_normal(count), _units(rng, 1)[0])
    return _moved(rng, points, points + 0.1 * rng.standard_normal(points.shape), _identity(count), far)


def targets_on_a_line(rng: np.random.Generator) -> Problem:
    cloud = rng.standard_normal((int(rng.integers(4, 60)), 3))
    return _moved(rng, cloud, np.outer(rng.standard_normal(len(cloud)), _units(rng, 1)[0]), _identity(len(cloud)))


def two_places(rng: np.random.Generator) -> Problem:
    """Many matches, but only of two distinct points."""
    count = int(rng.integers(4, 60))
    which = np.arange(count) % 2
    return _moved(rng, rng.standard_normal((2, 3))[which], rng.standard_normal((2, 3))[which], _identity(count))


def unrelated(rng: np.random.Generator) -> Problem:
    """Targets unrelated to the source: the sum of q p' is zero, and all rotations are equally good."""
    count = int(rng.integers(8, 60))
    basis = np.linalg.qr(np.column_stack([np.ones(count), rng.standard_normal((count, 6))]))[0][:, 1:] * np.sqrt(count)
    return _moved(rng, basis[:, :3], basis[:, 3:] * rng.uniform(0.1, 1.0), _identity(count))


def mirrored_twins(rng: np.random.Generator) -> Problem:
    """A mirror image with equal smallest spreads in general position: only one rotation is undetermined."""
    cloud = _whitened(rng, int(rng.integers(6, 60))) * [1.0, 1.0, rng.uniform(1.1, 3.0)]
    return _moved(rng, cloud, cloud * [1.0, -1.0, 1.0], _identity(len(cloud)))


def half_turns(rng: np.random.Generator) -> Problem:
    """All targets in one place under one weight: four rotations, half turns apart, are equally good."""
    cloud = _whitened(rng, int(rng.integers(5, 60))) * [1.0, 1.7, 2.9]
    return _moved(rng, cloud, np.zeros_like(cloud), np.tile(np.diag([1.0, 2.0, 5.0]), (len(cloud), 1, 1)))


def one_line_each(rng: np.random.Generator) -> Problem:
    """Point-to-line weights with parallel lines: translation along them is unconstrained."""
    cloud = rng.standard_normal((int(rng.integers(5, 60)), 3))
    return _moved(rng, cloud, cloud, np.tile(np.diag([1.0, 1.0, 0.0]), (len(cloud), 1, 1)))


def hinge(rng: np.random.Generator) -> Problem:
    """Full weights for points on one axis, weights only along the axis elsewhere: a door on its hinge."""
    count = int(rng.integers(6, 60))
    points = rng.standard_normal((count, 3)) * [1, 1, 1]
    on_axis = np.arange(count) < 3
    points[on_axis, :2] = 0.0
    weights = np.where(on_axis[:, None, None], _EYE, np.diag([0.0, 0.0, 1.0]))
    return _moved(rng, points, points, weights)


DEGENERATE: dict[str, Callable[[np.random.Generator], Problem]] = {
    "regular solids, mirrored": solids,
    "the same, far away": partial(solids, far=1e6),
    "prisms, mirrored": prisms,
    "whitened clouds, mirrored": whitened,
    "the same, far away (whitened)": partial(whitened, far=1e6),
    "targets in one place": one_target,
    "one shared weight, isotropic source": shared_weight,
    "five point-to-plane matches": five_planes,
    "sphere, point to plane": sphere_planes,
    "surface of revolution, point to plane": revolution_planes,
    "cylinder, point to plane": cylinder_planes,
    "corridor, point to plane": corridor,
    "one plane": one_plane,
    "screw surface, point to plane": screw_planes,
    "collinear source": collinear,
    "collinear source, far away": partial(collinear, far=1e6),
    "targets on a line": targets_on_a_line,
    "matches of two points": two_places,
    "unrelated targets": unrelated,
    "mirrored, two equal spreads": mirrored_twins,
    "four equal half turns": half_turns,
    "parallel lines": one_line_each,
    "door on its hinge": hinge,
}


def nudged(rng: np.random.Generator, problem: Problem, by: float) -> Problem:
    """Perturb each point and weight by `by`, relative to the size of the cloud and of the weight."""
    source, target, weights = problem
    size = np.sqrt(((source - source.mean(axis=0)) ** 2).sum(axis=1).mean()) or 1.0
    factor = np.eye(3) + by * rng.standard_normal((len(weights), 3, 3))
    weights = factor @ weights @ factor.swapaxes(1, 2)
    return (
        source + by * size * rng.standard_normal(source.shape),
        target + by * size * rng.standard_normal(target.shape),
        0.5 * (weights + weights.swapaxes(1, 2)),
    )


def sound(rng: np.random.Generator) -> Problem:
    """A sound problem: few to many matches, weights of condition 1 to 1e4, noise of 0.1 to 10 sigma; some planar, some far away."""
    kind = rng.integers(4)
    if kind == 0:
        made = hostile_problem(rng)
        return made.source, made.target, made.information
    if kind == 1:
        made = random_problem(rng, int(rng.integers(4, 50)), condition=10 ** rng.uniform(0, 8), noise=10 ** rng.uniform(-3, 1))
        return made.source, made.target, made.information
    if kind == 2:
        count = int(rng.integers(12, 300))
        made = random_problem(rng, count, condition=1.0, noise=10 ** rng.uniform(-3, 0))
        return made.source, made.target, _planes(_units(rng, count)) / 0.01
    made = hostile_problem(rng, most=200)
    return _moved(rng, made.source, made.target - made.target.mean(axis=0), made.information, far=1e5)
