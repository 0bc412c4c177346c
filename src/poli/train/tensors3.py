"""Rigid motions in torch, batched and differentiable, like `se3` in numpy; for rotations well below a half turn."""

from __future__ import annotations

import torch
from torch.nn import functional

# B_n / n!, with Bernoulli numbers B_n: the series of the inverse left Jacobian. At |xi| = 1 the omitted terms sum to 3e-8.
_BERNOULLI = {2: 1 / 12, 4: -1 / 720, 6: 1 / 30240, 8: -1 / 1209600}


def hat(v: torch.Tensor) -> torch.Tensor:  # (..., 3) -> (..., 3, 3)
    """Return the matrices of the cross product with v."""
    x, y, z = v.unbind(-1)
    o = torch.zeros_like(x)
    return torch.stack([o, -z, y, z, o, -x, -y, x, o], dim=-1).reshape(*v.shape, 3)


def inverse(T: torch.Tensor) -> torch.Tensor:  # (..., 4, 4)
    """Return the inverse motions."""
    R = T[..., :3, :3].transpose(-1, -2)
    top = torch.cat([R, -R @ T[..., :3, 3:]], dim=-1)
    return torch.cat([top, T[..., 3:, :]], dim=-2)


def log(T: torch.Tensor) -> torch.Tensor:  # (..., 4, 4) -> (..., 6)
    """Return xi with Exp(xi) = T, rotation first."""
    R = T[..., :3, :3]
    skew = 0.5 * (R - R.transpose(-1, -2))
    sine_axis = torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], dim=-1)
    squared = (sine_axis**2).sum(-1, keepdim=True)
    cosine = 0.5 * (R.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True) - 1.0)
    small = squared < 1e-6
    sine = torch.where(small, torch.ones_like(squared), squared).sqrt()  # the branch not taken stays finite, as does its gradient
    ratio = torch.where(small & (cosine > 0), 1.0 + squared / 6.0, torch.atan2(sine, cosine) / sine)
    omega = ratio * sine_axis
    # The translation is V^-1 t: V^-1 = I - hat/2 + (1/12 ...) hat^2, the inverse Jacobian of the rotation alone.
    K = hat(omega)
    K2 = K @ K
    series = _BERNOULLI[2] * K2 + _BERNOULLI[4] * K2 @ K2 + _BERNOULLI[6] * K2 @ K2 @ K2 + _BERNOULLI[8] * K2 @ K2 @ K2 @ K2
    t = T[..., :3, 3:]
    return torch.cat([omega, (t - 0.5 * K @ t + series @ t)[..., 0]], dim=-1)


def left_jacobian_inverse(xi: torch.Tensor) -> torch.Tensor:  # (..., 6) -> (..., 6, 6)
    """Return the inverse left Jacobian of SE(3), by its series."""
    W, V = hat(xi[..., :3]), hat(xi[..., 3:])
    ad = torch.cat([torch.cat([W, torch.zeros_like(W)], -1), torch.cat([V, W], -1)], -2)
    square = ad @ ad
    power, total = square, torch.eye(6, dtype=xi.dtype, device=xi.device) - 0.5 * ad
    for n, factor in _BERNOULLI.items():
        total = total + factor * power
        if n != max(_BERNOULLI):
            power = power @ square
    return total


# --- Batched 3x3 matrices in torch, written out by entry: triangular factors and eigensystems with cheap gradients.


_SWEEPS = 4  # cyclic Jacobi converges quadratically, to rounding after four; fixed, because an exported graph has no branches


def lower(six: torch.Tensor, floor: float) -> torch.Tensor:  # (..., 6) -> (..., 3, 3)
    """Map six numbers (xx, yx, yy, zx, zy, zz) to a lower-triangular matrix with a diagonal above `floor`; about 0.1 for zeros."""
    x, y, z = (0.5 * functional.softplus(six[..., i] - 1.5) + floor for i in (0, 2, 5))
    return _matrix(x, six[..., 1], y, six[..., 3], six[..., 4], z)


def cholesky(C: torch.Tensor, floor: float) -> torch.Tensor:  # (..., 3, 3) -> (..., 3, 3)
    """Return L with L L' = C, for C = A + B B' with A semidefinite and the diagonal of B above `floor`.

    The diagonal of L is then above `floor` as well; where rounding would violate this, it is clipped."""
    x = C[..., 0, 0].clamp_min(floor**2).sqrt()
    yx, zx = C[..., 1, 0] / x, C[..., 2, 0] / x
    y = (C[..., 1, 1] - yx * yx).clamp_min(floor**2).sqrt()
    zy = (C[..., 2, 1] - yx * zx) / y
    z = (C[..., 2, 2] - zx * zx - zy * zy).clamp_min(floor**2).sqrt()
    return _matrix(x, yx, y, zx, zy, z)


def inverse3(L: torch.Tensor) -> torch.Tensor:  # (..., 3, 3) -> (..., 3, 3)
    """Return the inverses of lower-triangular matrices."""
    x, y, z = (1.0 / L[..., i, i] for i in range(3))
    yx, zx, zy = L[..., 1, 0], L[..., 2, 0], L[..., 2, 1]
    return _matrix(x, -yx * x * y, y, (yx * zy * y - zx) * x * z, -zy * y * z, z)


def _matrix(xx, yx, yy, zx, zy, zz) -> torch.Tensor:
    zero = torch.zeros_like(xx)
    return torch.stack([xx, zero, zero, yx, yy, zero, zx, zy, zz], dim=-1).reshape(*xx.shape, 3, 3)


def eigh3(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # (N, 3, 3) -> (N, 3), (N, 3, 3), float64
    """Return ascending eigenvalues, and eigenvectors as columns, of either handedness."""
    A = matrices.double()
    size = _or_one(A.abs().amax(dim=(1, 2)))  # avoids overflow and underflow of squares
    A = A / size[:, None, None]
    values = [A[:, i, i] for i in range(3)]
    beside = [A[:, 1, 2], A[:, 0, 2], A[:, 0, 1]]  # entry k couples the two other axes
    axes = list((torch.eye(3, dtype=A.dtype, device=A.device) + torch.zeros_like(A)).unbind(dim=2))  # (N, 3) each
    for _ in range(_SWEEPS):
        for p, q, k in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
            entry, gap = beside[k], values[q] - values[p]
            twice = 2.0 * torch.where(gap < 0.0, -entry, entry)
            t = twice / _or_one(gap.abs() + (gap * gap + twice * twice).sqrt())  # the tangent, at most one
            c = 1.0 / (t * t + 1.0).sqrt()
            s = t * c
            values[p], values[q] = values[p] - t * entry, values[q] + t * entry
            beside[q], beside[p], beside[k] = c * beside[q] - s * beside[p], s * beside[q] + c * beside[p], torch.zeros_like(entry)
            c, s = c[:, None], s[:, None]
            axes[p], axes[q] = c * axes[p] - s * axes[q], s * axes[p] + c * axes[q]
    ascending, order = torch.stack(values, dim=1).sort(dim=1)
    return ascending * size[:, None], torch.stack(axes, dim=2).gather(2, order[:, None].expand(-1, 3, -1))


def _or_one(values: torch.Tensor) -> torch.Tensor:
    """Replace zeros by one, for divisions. Adding a tiny number would work as well, but exporters round it to zero and drop it."""
    return torch.where(values > 0.0, values, torch.ones_like(values))
