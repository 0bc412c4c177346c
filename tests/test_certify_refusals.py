"""What the certified solver refuses, and how it says why."""

import numpy as np
import pytest

from poli.certify import PosePrior, solve
from poli.errors import DegenerateError, InputError


def line(count: int) -> np.ndarray:
    return np.outer(np.arange(count), [1.0, 2.0, 3.0])


EYES = np.tile(np.eye(3), (5, 1, 1))
CLOUD = np.random.default_rng(0).standard_normal((5, 3))


@pytest.mark.parametrize(
    ("source", "target", "information", "kind", "says"),
    [
        (CLOUD[:2], CLOUD[:2], EYES[:2], DegenerateError, "2 matches with weight; at least 3"),
        (CLOUD[:0], CLOUD[:0], EYES[:0], DegenerateError, "0 matches"),
        (line(5), CLOUD, EYES, DegenerateError, "5 source points are collinear"),
        (np.ones((5, 3)), CLOUD, EYES, DegenerateError, "5 source points coincide"),
        (CLOUD, CLOUD, 0 * EYES, DegenerateError, "0 matches with weight"),
        (CLOUD, CLOUD, EYES * np.diag([1.0, 1, 0]), DegenerateError, r"sum of the weights is singular.*\(.*1.00\)"),
        (CLOUD, np.where(np.eye(5, 3) > 0, np.nan, CLOUD), EYES, InputError, "target: row 0 is not finite"),
        (np.where(np.eye(5, 3) > 0, np.inf, CLOUD), CLOUD, EYES, InputError, "source: row 0 is not finite"),
        (CLOUD, CLOUD, EYES * np.array([[1, 9, 1], [1, 1, 1], [1, 1, 1.0]]) + np.eye(3, k=1), InputError, "row 0 is not symmetric"),
        (CLOUD, CLOUD, EYES * np.diag([1.0, 1, -1]), InputError, "row 0 is not positive semidefinite"),
        (CLOUD[:4], CLOUD, EYES, InputError, "do not fit"),
    ],
)
def test_degenerate_and_bad_input_is_named(source, target, information, kind, says):
    with pytest.raises(kind, match=says):
        solve(source, target, information)


def test_parallel_planes_leave_a_rotation_open(rng):
    """Point-to-plane weights on one sphere about the origin: any rotation fits."""
    directions = rng.standard_normal((30, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    with pytest.raises(DegenerateError, match="rotation about"):
        solve(directions, directions, np.einsum("ni,nj->nij", directions, directions))


@pytest.mark.parametrize("covariance", [np.eye(5), np.zeros((6, 6)), -np.eye(6), np.full((6, 6), np.nan), np.triu(np.ones((6, 6)))])
def test_bad_priors_are_named(covariance):
    with pytest.raises(InputError, match="prior's covariance"):
        solve(CLOUD, CLOUD, EYES, PosePrior(np.eye(4), covariance))
    with pytest.raises(InputError, match="prior's T_target_source"):
        solve(CLOUD, CLOUD, EYES, PosePrior(2 * np.eye(4), np.eye(6)))
    with pytest.raises(InputError, match="positive"):
        PosePrior.isotropic(np.eye(4), 0.0, 1.0)
