"""Rigid motions in torch against those in numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poli import se3

torch = pytest.importorskip("torch")
from poli.train import tensors3 as motion  # noqa: E402


@given(st.integers(0, 10_000), st.floats(-9, 0))
def test_log_and_jacobian_agree_with_numpy(seed, exponent):
    xi = np.random.default_rng(seed).standard_normal(6) * 10.0**exponent / 3.0
    T = se3.exp(xi)
    assert motion.log(torch.from_numpy(T)).numpy() == pytest.approx(se3.log(T), abs=1e-9)
    expected = se3.right_jacobian_inverse(-xi)  # J_l(xi) = J_r(-xi)
    np.testing.assert_allclose(motion.left_jacobian_inverse(torch.from_numpy(xi)).numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(motion.inverse(torch.from_numpy(T)).numpy(), se3.inverse(T), atol=1e-12)


@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-3, 0.3, 1.0])
def test_log_has_finite_and_right_gradients(size):
    xi = size * np.random.default_rng(1).standard_normal(6) / 3.0
    T = torch.from_numpy(se3.exp(xi)).requires_grad_()
    jacobian = torch.autograd.functional.jacobian(motion.log, T)
    assert torch.isfinite(jacobian).all()
    for axis in range(6):  # along right perturbations, the derivative of Log(T Exp(e)) is J_r^-1
        step = np.zeros(6)
        step[axis] = 1e-6
        moved = (se3.log(se3.exp(xi) @ se3.exp(step)) - se3.log(se3.exp(xi) @ se3.exp(-step))) / 2e-6
        tangent = se3.exp(xi) @ (se3.exp(step) - se3.exp(-step)) / 2e-6
        np.testing.assert_allclose((jacobian * torch.from_numpy(tangent)).sum((1, 2)).numpy(), moved, atol=2e-5)
