"""Random pose problems, from easy to hostile."""

from dataclasses import dataclass

import numpy as np


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
