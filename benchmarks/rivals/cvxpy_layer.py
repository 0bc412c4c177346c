"""The rival: the semidefinite relaxation with cvxpylayers, as in SDPRLayers and the paper.

Size 13 is the program over [h; vec(R); t]; size 10 uses our elimination of the translation. The constraints are ours, or others,
such as the paper's (`paper_solver.FORMS`). Points are centered and the cost has size one, which the solvers need.
"""

from typing import Any, Literal

import numpy as np

from benchmarks.rivals.paper_solver import quadratic_form
from poli.certify.quadratic import FORMS
from poli.errors import MissingExtra

try:
    import cvxpy
    import torch
    from cvxpylayers.torch import CvxpyLayer
except ImportError:
    raise MissingExtra("comparing with cvxpylayers", "bench") from None

Solver = Literal["Clarabel", "SCS"]


class CvxpyPose:
    """Differentiable layer from matched points and weights to a rotation, by cvxpylayers."""

    def __init__(self, size: Literal[10, 13], solver: Solver, forms: np.ndarray = FORMS) -> None:
        self.size, self.solver = size, solver
        padded = np.zeros((len(forms), size, size))
        padded[:, :10, :10] = forms[:, :10, :10]  # no constraint has t
        X, M = cvxpy.Variable((size, size), PSD=True), cvxpy.Parameter((size, size), symmetric=True)
        constraints = [cvxpy.trace(A @ X) == float(i == 0) for i, A in enumerate(padded)]
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(M @ X)), constraints)
        self._layer: Any = CvxpyLayer(problem, parameters=[M], variables=[X])

    def __call__(self, source: torch.Tensor, target: torch.Tensor, information: torch.Tensor) -> torch.Tensor:  # -> (3, 3)
        Q = quadratic_form(source - source.mean(dim=0), target - target.mean(dim=0), information)
        if self.size == 10:
            Q = Q[:10, :10] - Q[:10, 10:] @ torch.linalg.solve(Q[10:, 10:], Q[10:, :10])
        Q = 0.5 * (Q + Q.T)
        (X,) = self._layer(Q / torch.linalg.norm(Q), solver_args={"solve_method": self.solver})
        return X[0, 1:10].reshape(3, 3).T
