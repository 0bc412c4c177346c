"""TEASER++ as reimplemented, on its published examples."""

import numpy as np
import pytest

from benchmarks.rivals.teaser import Teaser, gnc_rotation, teaser, vote
from poli.se3 import exp


def errors(T: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Degrees, and a length."""
    cosine = 0.5 * (np.trace(truth[:3, :3].T @ T[:3, :3]) - 1.0)
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))), float(np.linalg.norm(T[:3, 3] - truth[:3, 3]))


# Of the published example `teaser_python_ply`.
EXAMPLE = np.array(
    [
        [9.96926560e-01, 6.68735757e-02, -4.06664421e-02, -1.15576939e-01],
        [-6.61289946e-02, 9.97617877e-01, 1.94008687e-02, -3.87705398e-02],
        [4.18675510e-02, -1.66517807e-02, 9.98977765e-01, 1.14874890e-01],
        [0.0, 0.0, 0.0, 1.0],
    ]
)


def test_the_example_of_the_ply_file():
    """1,889 matches with noise of up to 0.05; 1,700 draws of them, some the same, are shifted by 5 to 10. The cloud is random in a
    unit cube instead of the bunny."""
    rng = np.random.default_rng(0)
    source = rng.random((1889, 3))
    target = source @ EXAMPLE[:3, :3].T + EXAMPLE[:3, 3] + rng.uniform(-0.05, 0.05, source.shape)
    for row in rng.integers(1700, size=1700):
        target[row] += rng.uniform(5.0, 10.0, 3)
    T = teaser(source, target, Teaser(0.05, cost_threshold=1e-12))
    degrees, length = errors(T, EXAMPLE)
    assert degrees < 1.0
    assert length < 0.02


def test_the_example_of_the_quickstart_at_known_scale():
    """Twenty exact matches, two of which are shifted."""
    source = np.random.default_rng(1).random((20, 3))
    R = np.array(
        [[0.98370992, 0.17903344, -0.01618098], [-0.04165862, 0.13947877, -0.98934839], [-0.17486954, 0.9739059, 0.14466493]]
    )
    truth = np.eye(4)
    truth[:3, :3], truth[:3, 3] = R, [1.0, 0.0, -1.0]
    target = source @ R.T + truth[:3, 3]
    target[1] += 10.0
    target[9] += 15.0
    degrees, length = errors(teaser(source, target, Teaser(0.01, cost_threshold=1e-12)), truth)
    assert degrees < 1e-3
    assert length < 1e-6


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95, 0.98])
def test_its_benchmark_of_outliers(share):
    """As in the paper: a cloud in the unit cube, noise of 0.01 bounded by 5.54 sigma, outliers in a ball of radius 5."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        source = rng.random((1000, 3)) - 0.5
        truth = exp(np.concatenate([rng.normal(0.0, 1.0, 3), rng.uniform(-0.5, 0.5, 3)]))
        target = source @ truth[:3, :3].T + truth[:3, 3] + rng.normal(0.0, 0.01, source.shape)
        wrong = rng.permutation(1000)[: int(share * 1000)]
        directions = rng.normal(size=(len(wrong), 3))
        target[wrong] = (
            5.0 * rng.random((len(wrong), 1)) ** (1 / 3) * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        )
        degrees, length = errors(teaser(source, target, Teaser(0.0554)), truth)
        assert degrees < 3.0
        assert length < 0.05


def test_outliers_within_a_clique_are_rejected():
    """Every length agrees, the directions do not: only the rotation tells them apart."""
    rng = np.random.default_rng(3)
    source = rng.normal(size=(60, 3))
    R = exp(np.array([0.3, -0.2, 0.5, 0.0, 0.0, 0.0]))[:3, :3]
    target = source @ R.T + rng.normal(0.0, 0.005, source.shape)
    wrong = np.arange(60) < 20
    target[wrong] *= -1.0
    found, inliers = gnc_rotation(source, target, 0.05, Teaser(0.05))
    np.testing.assert_array_equal(inliers, ~wrong)
    np.testing.assert_allclose(found, R, atol=0.01)


def test_votes_minimize_the_truncated_squares():
    rng = np.random.default_rng(4)
    for _ in range(20):
        values = 100.0 + np.concatenate([rng.normal(0.0, 0.02, 15), rng.uniform(-2.0, 2.0, 25)])
        grid = np.linspace(values.min(), values.max(), 20001)

        def cost(x, values=values):
            return np.minimum(((x - values[:, None]) / 0.1) ** 2, 1.0).sum(axis=0)

        assert cost(np.array([vote(values, 0.1)]))[0] <= cost(grid).min() + 1e-9


def test_too_few_consistent_matches_give_no_pose():
    rng = np.random.default_rng(5)
    assert teaser(rng.random((2, 3)), rng.random((2, 3)), Teaser(0.05)) is None
