"""The rival: the same semidefinite relaxation with cvxpylayers, as in SDPRLayers and the paper.

`full` is the paper's program over [h; vec(R); t] in 13 x 13; `reduced` uses our elimination of the translation, 10 x 10.
Both use our constraints (the paper's are looser), centered points and a cost of size one, which the solvers need.
"""

from typing import Any, Literal

import numpy as np

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

    def __init__(self, size: Literal[10, 13], solver: Solver) -> None:
        self.size, self.solver = size, solver
        forms = np.zeros((len(FORMS), size, size))
        forms[:, :10, :10] = FORMS
        X, M = cvxpy.Variable((size, size), PSD=True), cvxpy.Parameter((size, size), symmetric=True)
        constraints = [cvxpy.trace(A @ X) == float(i == 0) for i, A in enumerate(forms)]
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(M @ X)), constraints)
        self._layer: Any = CvxpyLayer(problem, parameters=[M], variables=[X])

    def __call__(self, source: torch.Tensor, target: torch.Tensor, information: torch.Tensor) -> torch.Tensor:  # -> (3, 3)
        Q = _quadratic_form(source - source.mean(dim=0), target - target.mean(dim=0), information)
        if self.size == 10:
            Q = Q[:10, :10] - Q[:10, 10:] @ torch.linalg.solve(Q[10:, 10:], Q[10:, :10])
        Q = 0.5 * (Q + Q.T)
        (X,) = self._layer(Q / torch.linalg.norm(Q), solver_args={"solve_method": self.solver})
        return X[0, 1:10].reshape(3, 3).T


def _quadratic_form(p: torch.Tensor, q: torch.Tensor, W: torch.Tensor) -> torch.Tensor:  # (N, 3), (N, 3), (N, 3, 3) -> (13, 13)
    """The cost matrix by moments, as in `certify.quadratic`: five times faster than summing B' W B over the matches."""
    features = torch.cat([torch.ones_like(p[:, :1]), p], dim=1)  # (N, 4)
    products = (features[:, :, None] * features[:, None, :]).reshape(-1, 16)
    blocks = (products.T @ W.reshape(-1, 9)).reshape(4, 4, 3, 3).permute(0, 2, 1, 3)
    weighted = (W @ q[:, :, None])[:, :, 0]
    linear = features.T @ weighted  # (4, 3)
    order = [3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2]  # vec(R) first, then t
    H = blocks.reshape(12, 12)[order][:, order]
    g = -linear.reshape(12)[order]
    top = torch.cat([(q * weighted).sum()[None], g])
    return torch.cat([top[None], torch.cat([g[:, None], H], dim=1)])
