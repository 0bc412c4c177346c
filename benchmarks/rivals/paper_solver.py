"""The paper's pose solver as it is written in supplement SB: the oracle of ours, and a rival in time.

QCQP over x = [h; vec(R); t] with the 24 listed rotation constraints and h^2 = 1, Shor's relaxation (SDP) by Clarabel, the pose by
decomposing X, and its gradient by the row-reduced KKT system (eq. `implicit_grad`). It shares no code with `poli.certify`. The one
correction: the blocks printed for Q have the signs of d = q - R p + t; these are of d = q - (R p + t), which the paper defines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from poli.errors import MissingExtra

try:
    import clarabel
    import torch
    from scipy import sparse
    from scipy.linalg import qr
except ImportError:
    raise MissingExtra("comparing with the paper's solver", "bench") from None

SIZE = 13
_RANK = 1e-9  # of the largest pivot of the constraint Jacobian: rounding is about 1e-16
_NEWTON_STEPS = 4
_TIGHT = 1e-4  # second over first eigenvalue of X; of one of rank one, Clarabel leaves less


# --- QCQP: the constraints x' A x = 0 and x' A_0 x = 1


def _entry(row: int, column: int) -> int:
    return 1 + 3 * column + row


def _form(terms: Iterable[tuple[int, int, float]]) -> np.ndarray:  # -> (13, 13)
    """The symmetric A with x' A x = sum of value * x_i * x_j."""
    A = np.zeros((SIZE, SIZE))
    for i, j, value in terms:
        A[i, j] += 0.5 * value
        A[j, i] += 0.5 * value
    return A


def _listed_constraints() -> np.ndarray:  # (24, 13, 13)
    cyclic = [(i, (i + 1) % 3, (i + 2) % 3) for i in range(3)]
    orthonormal = [  # r_i' r_j - delta_ij h^2 = 0, eq. `orth`
        _form([(_entry(r, i), _entry(r, j), 1.0) for r in range(3)] + [(0, 0, -1.0 * (i == j))])
        for i in range(3) for j in range(i, 3)
    ]  # fmt: skip
    balanced = [  # sum_r R_rj^2 - sum_c R_ic^2 = 0, eq. `rowcol`
        _form([(_entry(r, j), _entry(r, j), 1.0) for r in range(3)] + [(_entry(i, c), _entry(i, c), -1.0) for c in range(3)])
        for i in range(3) for j in range(3)
    ]  # fmt: skip
    handed = [  # r_j x r_k - h r_i = 0, eq. `handed`; (a, b, c) cyclic, too, for the entries of the cross product
        _form([(_entry(b, j), _entry(c, k), 1.0), (_entry(c, j), _entry(b, k), -1.0), (0, _entry(a, i), -1.0)])
        for i, j, k in cyclic for a, b, c in cyclic
    ]  # fmt: skip
    return np.stack(orthonormal + balanced + handed)


FORMS = np.stack([_form([(0, 0, 1.0)]), *_listed_constraints()])  # (25, 13, 13): A_0 (eq. `norm`), then A_1 to A_24


# --- SDP: Shor's relaxation


@dataclass(frozen=True)
class Solution:
    Q: np.ndarray  # (13, 13)
    x: np.ndarray  # (13,) [h; vec(R); t] with h = 1 and R a rotation
    X: np.ndarray  # (13, 13), of the relaxation
    multipliers: np.ndarray  # (25,) lambda, in the paper's sign: the certificate matrix is Q + sum lambda_l A_l

    @property
    def gap(self) -> float:
        """Between the cost of x and that of the relaxation, in units of |Q|."""
        return float(self.x @ self.Q @ self.x - (self.Q * self.X).sum()) / float(np.linalg.norm(self.Q))

    @property
    def condition(self) -> float:
        """Of M_r; infinite if the pose is not differentiable by Q."""
        return float(np.linalg.cond(kkt_matrix(self.Q, self.x, self.multipliers)[0]))

    @property
    def tight(self) -> bool:
        """Whether X has rank one."""
        values = np.linalg.eigvalsh(self.X)
        return bool(values[-2] < _TIGHT * values[-1])


_COLUMNS, _ROWS = np.tril_indices(SIZE)  # Clarabel's order: the upper triangle, column by column
_SCALE = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))
_STACKED = sparse.csc_matrix((FORMS[:, _ROWS, _COLUMNS] * _SCALE).T)


def solve(Q: np.ndarray, tolerance: float = 1e-8) -> Solution:
    """Solve the relaxation and extract the pose. The default tolerance is Clarabel's.

    Clarabel is given the dual, which has 25 unknowns instead of 91: maximize -lambda_0 such that Q + sum lambda_l A_l is positive
    semidefinite. X is what it calls the dual variable of that cone.
    """
    objective = np.zeros(len(FORMS))
    objective[0] = 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    cones = [clarabel.PSDTriangleConeT(SIZE)]
    none = sparse.csc_matrix((len(FORMS), len(FORMS)))
    found = clarabel.DefaultSolver(none, objective, -_STACKED, Q[_ROWS, _COLUMNS] * _SCALE, cones, settings).solve()
    X = np.zeros((SIZE, SIZE))
    X[_ROWS, _COLUMNS] = X[_COLUMNS, _ROWS] = np.asarray(found.z) / _SCALE
    return Solution(Q, extract(X), X, np.asarray(found.x))


def extract(X: np.ndarray) -> np.ndarray:  # (13, 13) -> (13,)
    """x of X = x x', with h = 1 and R rounded to the nearest rotation."""
    leading = np.linalg.eigh(X)[1][:, -1]
    x = leading / leading[0]
    U, _, Vt = np.linalg.svd(x[1:10].reshape(3, 3).T)
    R = U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt
    return np.concatenate([[1.0], R.T.reshape(9), x[10:]])


# --- the KKT conditions and the gradient


def kkt_matrix(Q: np.ndarray, x: np.ndarray, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (20, 20), (7,)
    """M_r = 2 [H G_r'; G_r 0] of the row-reduced system, and the constraints that G_r keeps: G has 25 rows and rank 7."""
    G = FORMS @ x  # half of the Jacobian of g(x); M_r has the factor 2
    _, triangle, order = qr(G.T, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    kept = order[: int((pivots > _RANK * pivots[0]).sum())]
    H = Q + np.tensordot(multipliers, FORMS, 1)  # the certificate matrix
    return 2.0 * np.block([[H, G[kept].T], [G[kept], np.zeros((len(kept), len(kept)))]]), kept


def refine(solution: Solution) -> Solution:
    """Newton's method on the KKT conditions K(x, lambda) = 0 (eqs. `kkt_grad_L`, `kkt_constraints`). Not in the paper: it removes
    the error of Clarabel's tolerance."""
    Q, x, multipliers = solution.Q, solution.x, solution.multipliers.copy()
    for _ in range(_NEWTON_STEPS):
        M, kept = kkt_matrix(Q, x, multipliers)
        stationarity = 2.0 * (Q + np.tensordot(multipliers, FORMS, 1)) @ x
        violation = x @ FORMS[kept] @ x - (kept == 0)
        step = np.linalg.solve(M, -np.concatenate([stationarity, violation]))
        x = x + step[:SIZE]
        multipliers[kept] += step[SIZE:]
    return Solution(Q, x, solution.X, multipliers)


def gradient(solution: Solution, by_x: np.ndarray) -> np.ndarray:  # (13,) -> (13, 13)
    """Gradient of a loss by Q for its gradient by x: dx = -P M_r^+ N dtheta (eq. `implicit_grad`) with N dtheta = 2 dQ x.

    M_r is symmetric, and regular where the optimum is strict: its pseudo-inverse is its inverse. The printed M'(M M')^-1 would
    square its condition number.
    """
    x = solution.x
    M, kept = kkt_matrix(solution.Q, x, solution.multipliers)
    u = -np.linalg.solve(M, np.concatenate([by_x, np.zeros(len(kept))]))[:SIZE]
    return np.outer(u, x) + np.outer(x, u)


# --- the layer: from matched points and weights to a pose


def quadratic_form(p: torch.Tensor, q: torch.Tensor, W: torch.Tensor) -> torch.Tensor:  # (N, 3), (N, 3), (N, 3, 3) -> (13, 13)
    """Q by moments: five times as fast as summing Q_i = B' W B over the matches with B = [q, -(p' (x) I), -I]."""
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


@dataclass(frozen=True)
class PaperPose:
    """The layer, for one problem. Q has size one."""

    centered: bool = True  # and points of size one; the paper keeps the given coordinates
    tolerance: float = 1e-8
    refined: bool = False  # see `refine`

    def __call__(
        self,
        source: torch.Tensor,  # (N, 3)
        target: torch.Tensor,  # (N, 3)
        information: torch.Tensor,  # (N, 3, 3)
    ) -> torch.Tensor:  # (4, 4)
        return self.solve(source, target, information)[0]

    def solve(self, source: torch.Tensor, target: torch.Tensor, information: torch.Tensor) -> tuple[torch.Tensor, Solution]:
        """The pose, differentiable by all inputs, and the relaxation's solution in the coordinates of the program."""
        # The optimum does not depend on the coordinates, so they need no gradient.
        p, q = source.detach(), target.detach()
        center, to, size = p.new_zeros(3), p.new_zeros(3), p.new_ones(())
        if self.centered:
            center, to = p.mean(dim=0), q.mean(dim=0)
            size = (p - center).square().sum(dim=1).mean().sqrt()
        Q = quadratic_form((source - center) / size, (target - to) / size, information)
        Q = 0.5 * (Q + Q.T) / torch.linalg.norm(Q.detach())
        answers: list[Solution] = []
        x = _Program.apply(Q, self, answers)
        R = x[1:10].reshape(3, 3).T
        t = size * x[10:] + to - R @ center
        return torch.cat([torch.cat([R, t[:, None]], dim=1), R.new_tensor([[0.0, 0.0, 0.0, 1.0]])]), answers[0]


class _Program(torch.autograd.Function):
    @staticmethod
    def forward(ctx, Q, layer, answers):
        ctx.solution = solve(Q.detach().numpy(), layer.tolerance)
        if layer.refined and ctx.solution.tight:
            ctx.solution = refine(ctx.solution)
        answers.append(ctx.solution)
        return torch.from_numpy(ctx.solution.x)

    @staticmethod
    def backward(ctx, by_x):
        return torch.from_numpy(gradient(ctx.solution, by_x.numpy())), None, None
