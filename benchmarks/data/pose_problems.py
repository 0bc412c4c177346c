"""Random pose problems, from easy to hostile."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poli import se3


@dataclass(frozen=True)
class PoseProblem:
    source: np.ndarray  # (N, 3)
    target: np.ndarray  # (N, 3)
    information: np.ndarray  # (N, 3, 3)
    T_target_source: np.ndarray  # (4, 4), the true pose


def random_rotations(rng: np.random.Generator, count: int) -> np.ndarray:  # (count, 3, 3)
    """Rotations, uniformly distributed."""
    q = rng.standard_normal((count, 4))
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    return np.stack(
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
         2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
         2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1,
    ).reshape(count, 3, 3)  # fmt: skip


def random_problem(rng: np.random.Generator, matches: int, condition: float = 1e4, noise: float = 1.0) -> PoseProblem:
    """A problem with a uniform rotation, points of unit spread, weights of up to the given condition number, and residuals of
    `noise` times the standard deviations implied by the weights."""
    T = np.eye(4)
    T[:3, :3] = random_rotations(rng, 1)[0]
    T[:3, 3] = 10.0 * rng.standard_normal(3)
    source = rng.standard_normal((matches, 3))
    axes = random_rotations(rng, matches)
    sigmas = 0.1 * condition ** (-0.5 * rng.random((matches, 3)))  # from 0.1 down to 0.1 / sqrt(condition)
    residuals = np.einsum("nij,nj->ni", axes, sigmas * rng.standard_normal((matches, 3))) * noise
    information = np.einsum("nij,nj,nkj->nik", axes, sigmas**-2, axes)
    information = 0.5 * (information + information.swapaxes(1, 2))
    return PoseProblem(source, source @ T[:3, :3].T + T[:3, 3] + residuals, information, T)


def hostile_problem(rng: np.random.Generator, most: int = 2000) -> PoseProblem:
    """A problem with 4 to `most` matches, weights of condition 1 to 1e4, noise of 0.1 to 10 sigma; all log-uniform."""
    matches = int(np.exp(rng.uniform(np.log(4), np.log(most + 1))))
    return random_problem(rng, matches, condition=10 ** rng.uniform(0, 4), noise=10 ** rng.uniform(-1, 1))


def ill_conditioned_problem(rng: np.random.Generator) -> PoseProblem:
    """10 to 200 matches with weights of condition 1e8."""
    return random_problem(rng, int(rng.integers(10, 201)), condition=1e8, noise=10 ** rng.uniform(-1, 1))


def few_matches_problem(rng: np.random.Generator) -> PoseProblem:
    """Four matches, noise of 100 sigma: there is hardly a true pose, and local minima are near the best one in cost."""
    return random_problem(rng, 4, condition=1e4, noise=100.0)


def object_problem(rng: np.random.Generator) -> PoseProblem:
    """300 to 1,000 points of an ellipsoid of radius 1, turned by up to 60 degrees, as in the paper's experiment on objects."""
    matches, axes = int(rng.integers(300, 1001)), rng.uniform(0.3, 1.0, 3)
    directions = _unit(rng.standard_normal((matches, 3)))
    points = directions * axes / axes.max()
    turn = np.deg2rad(rng.uniform(0, 60)) * _unit(rng.standard_normal(3))
    spacing = np.sqrt(4 * np.pi / matches)
    T = se3.exp(np.concatenate([turn, 0.1 * rng.standard_normal(3)]))
    return _surface_problem(rng, points, _unit(directions / axes), 0.29 * np.full(matches, spacing), 0.03 * spacing, T)


def scan_problem(rng: np.random.Generator) -> PoseProblem:
    """200 to 2,000 points on a street of 120 by 20 m, in meters from the sensor; the next scan is up to 2 m and 5 degrees away."""
    matches = int(rng.integers(200, 2001))
    points, normals = rng.uniform([-60, -10, -1.7], [60, 10, 8], (matches, 3)), np.zeros((matches, 3))
    side = rng.choice(3, matches, p=[0.1, 0.4, 0.5])
    normals[np.arange(matches), side] = 1.0
    walls = np.where(rng.random((matches, 3)) < 0.5, [-60, -10, -1.7], [60, 10, -1.7])
    points = np.where(normals > 0, walls, points)
    spread = 0.29 * 0.01 * np.linalg.norm(points, axis=1) + 0.02  # tangential, grows with the distance
    T = se3.exp(np.concatenate([np.deg2rad(5.0) * rng.uniform(-1, 1, 3), rng.uniform(-2, 2, 3) * [1, 0.2, 0.05]]))
    return _surface_problem(rng, points, normals, spread, 0.02, T)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _surface_problem(
    rng: np.random.Generator, source: np.ndarray, normals: np.ndarray, spread: np.ndarray, thickness: float, T: np.ndarray
) -> PoseProblem:  # (N, 3), (N, 3), (N,), m, (4, 4)
    """Residuals of standard deviation `spread` along the surface, `thickness` across it, and the weights that belong to them."""
    R, identity = T[:3, :3], np.eye(3)
    across = np.einsum("ni,nj->nij", normals @ R.T, normals @ R.T)
    along = identity - across
    factors = along * spread[:, None, None] + across * thickness
    residuals = np.einsum("nij,nj->ni", factors, rng.standard_normal(source.shape))
    information = along / spread[:, None, None] ** 2 + across / thickness**2
    return PoseProblem(source, source @ R.T + T[:3, 3] + residuals, information, T)


KINDS: dict[str, Callable[[np.random.Generator], PoseProblem]] = {
    "random": hostile_problem,
    "4 matches, 100 sigma": few_matches_problem,
    "weights of condition 1e8": ill_conditioned_problem,
    "objects": object_problem,
    "scans": scan_problem,
}
