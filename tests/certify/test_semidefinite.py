"""Our interior-point method against Clarabel, on the semidefinite programs of random and hard pose problems."""

from collections.abc import Callable, Iterator
from functools import partial

import clarabel
import numpy as np
import pytest
from scipy import sparse

from benchmarks.data.degenerate_problems import DEGENERATE, nudged, sound
from benchmarks.data.pose_problems import hostile_problem, random_problem
from oracles import random_pose
from poli.certify import PosePrior, checks
from poli.certify.quadratic import COUNT, FORMS, SIZE, chordal_form, eliminate_translation, quadratic_form
from poli.certify.rotation import round_to_rotation
from poli.certify.semidefinite import interior_point
from poli.certify.small import eigh
from poli.errors import DegenerateError

Problem = tuple[np.ndarray, np.ndarray, np.ndarray]
_COLUMNS, _ROWS = np.tril_indices(SIZE)  # Clarabel's order: the upper triangle, column by column
_SCALE = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))
_ROUNDING = 1e-12  # relative to costs of size one


def by_clarabel(M: np.ndarray) -> np.ndarray:  # (10, 10) -> (21,)
    """The multipliers computed by Clarabel."""
    objective = np.zeros(COUNT)
    objective[0] = -1.0
    A = sparse.csc_matrix((FORMS[:, _ROWS, _COLUMNS] * _SCALE).T)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    cones = [clarabel.PSDTriangleConeT(SIZE)]
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((COUNT, COUNT)), objective, A, M[_ROWS, _COLUMNS] * _SCALE, cones, settings
    ).solve()
    return np.asarray(solution.x)


def bound(M: np.ndarray, multipliers: np.ndarray) -> float:
    """The lower bound on the cost of every rotation that the multipliers prove."""
    return float(multipliers[0] + 4.0 * min(0.0, np.linalg.eigvalsh(M - np.einsum("l,lij->ij", multipliers, FORMS))[0]))


def form(problem: Problem, prior: PosePrior | None = None) -> np.ndarray:  # -> (10, 10)
    """M scaled to size one, as `solve` does."""
    matches = checks.matches(*problem)
    anchor = None if prior is None else checks.prior(prior.T_target_source, prior.covariance)
    center = matches.center if anchor is None else matches.center_with(*anchor)
    Q, frame, _ = quadratic_form(matches.source, matches.target, matches.information, *center)
    if anchor is not None:
        Q = Q + chordal_form(*anchor, frame)
    held = eigh(Q[10:, 10:].copy())
    checks.translation(*held)
    M, _ = eliminate_translation(Q, *held)
    return M / np.linalg.norm(M)


def _random(rng: np.random.Generator, **settings: float) -> Problem:
    made = random_problem(rng, int(rng.integers(4, 40)), **settings)
    return made.source, made.target, made.information


def _weights_apart(rng: np.random.Generator) -> Problem:
    source, target, weights = _random(rng, condition=100.0)
    return source, target, weights * 10.0 ** rng.uniform(-12, 0, len(weights))[:, None, None]


def _squashed(rng: np.random.Generator, axes: int) -> Problem:
    """Nearly planar, or nearly on a line."""
    source, _, weights = _random(rng, condition=1.0)
    thin = 10.0 ** rng.uniform(-5, -1)
    source[:, :axes] *= thin
    T = random_pose(rng)
    return source, source @ T[:3, :3].T + T[:3, 3] + 0.1 * thin * rng.standard_normal(source.shape), weights


def _hostile(rng: np.random.Generator) -> Problem:
    made = hostile_problem(rng, most=200)
    return made.source, made.target, made.information


def _any_degenerate(rng: np.random.Generator, near: bool) -> Problem:
    problem = list(DEGENERATE.values())[rng.integers(len(DEGENERATE))](rng)
    return nudged(rng, problem, 10.0 ** rng.uniform(-12, -1)) if near else problem


KINDS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "hostile": _hostile,
    "sound": sound,
    "weights of condition 1e12": partial(_random, condition=1e12),
    "the same, noise of 30 sigma": partial(_random, condition=1e12, noise=30.0),
    "weights 1e12 apart": _weights_apart,
    "nearly planar": partial(_squashed, axes=1),
    "nearly on a line": partial(_squashed, axes=2),
    "degenerate": partial(_any_degenerate, near=False),
    "nearly degenerate": partial(_any_degenerate, near=True),
}


def forms(kind: str, count: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng([7, list(KINDS).index(kind)])
    for _ in range(count):
        try:
            yield form(KINDS[kind](rng))
        except DegenerateError:  # the translation is undetermined: there is no program
            continue


def check_optimal(M: np.ndarray) -> None:
    X, multipliers, mu, steps = interior_point(M)
    S = M - np.einsum("l,lij->ij", multipliers, FORMS)
    value = float((M * X).sum())
    # Optimal by its own criteria: primal and dual feasible, without a gap.
    np.testing.assert_allclose(np.einsum("lij,ij->l", FORMS, X), np.eye(COUNT)[0], atol=_ROUNDING)
    assert np.linalg.eigvalsh(X)[0] > -_ROUNDING
    assert np.linalg.eigvalsh(S)[0] > -_ROUNDING
    assert abs(value - multipliers[0]) < 1e-11
    assert (X * S).sum() == pytest.approx(SIZE * mu, abs=1e-13)
    assert steps < 30
    # And no worse than Clarabel's, which stops at 1e-8.
    theirs = by_clarabel(M)
    assert bound(M, multipliers) > bound(M, theirs) - _ROUNDING
    assert value == pytest.approx(theirs[0], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_optima_equal_those_of_clarabel_and_bounds_are_no_lower(kind):
    tried = 0
    for M in forms(kind, 40):
        check_optimal(M)
        tried += 1
    assert tried >= 20


def test_with_priors_of_any_strength(rng):
    for make in (sound, _hostile, KINDS["degenerate"]):
        for _ in range(15):
            check_optimal(form(make(rng), PosePrior(random_pose(rng), np.diag(10.0 ** rng.uniform(-6, 2, 6)))))


def test_forms_that_do_not_arise_from_pose_problems(rng):
    """Indefinite forms of every rank, with eigenvalues over twelve powers of ten, and zero."""
    for rank in range(1, SIZE + 1):
        B = rng.standard_normal((SIZE, rank))
        for signs in (np.ones(rank), rng.choice([-1.0, 1.0], rank), 10.0 ** rng.uniform(-12, 0, rank)):
            M = (B * signs) @ B.T
            check_optimal(0.5 * (M + M.T) / np.linalg.norm(M))
    X, multipliers, mu, _ = interior_point(np.zeros((SIZE, SIZE)))
    assert abs(multipliers[0]) < 1e-12
    assert mu < 1e-12
    assert X[0, 0] == pytest.approx(1.0)


def test_a_tight_relaxation_has_rank_one_and_rounds_to_the_rotation(rng):
    for _ in range(20):
        T = random_pose(rng)
        source = rng.standard_normal((20, 3))
        M = form((source, source @ T[:3, :3].T + T[:3, 3], np.tile(np.eye(3), (20, 1, 1))))
        R, ratio = round_to_rotation(interior_point(M)[0])
        np.testing.assert_allclose(R, T[:3, :3], atol=1e-9)
        assert ratio > 1e8


@pytest.mark.parametrize("damage", [np.nan, np.inf, 1e300, 1e-300])
def test_it_terminates_on_any_input(damage):
    M = np.eye(SIZE)
    M[3, 4] = M[4, 3] = damage
    assert interior_point(M)[3] <= 60
