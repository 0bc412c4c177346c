"""Lower-triangular 3x3 matrices in torch, written out: many at once, and with cheap gradients."""

from __future__ import annotations

from poli.errors import MissingExtra

try:
    import torch
    from torch.nn import functional
except ImportError:
    raise MissingExtra("poli.learn", "train") from None


def lower(six: torch.Tensor, floor: float) -> torch.Tensor:  # (..., 6) -> (..., 3, 3)
    """Six numbers (xx, yx, yy, zx, zy, zz) to a lower-triangular matrix whose diagonal is above `floor`; 0.1 for zeros."""
    x, y, z = (0.5 * functional.softplus(six[..., i] - 1.5) + floor for i in (0, 2, 5))
    return _matrix(x, six[..., 1], y, six[..., 3], six[..., 4], z)


def cholesky(C: torch.Tensor, floor: float) -> torch.Tensor:  # (..., 3, 3) -> (..., 3, 3)
    """L with L L' = C, for C = A + B B' with A semidefinite and B's diagonal above `floor`: then so is L's, and what rounding
    takes away is put back."""
    x = C[..., 0, 0].clamp_min(floor**2).sqrt()
    yx, zx = C[..., 1, 0] / x, C[..., 2, 0] / x
    y = (C[..., 1, 1] - yx * yx).clamp_min(floor**2).sqrt()
    zy = (C[..., 2, 1] - yx * zx) / y
    z = (C[..., 2, 2] - zx * zx - zy * zy).clamp_min(floor**2).sqrt()
    return _matrix(x, yx, y, zx, zy, z)


def inverse(L: torch.Tensor) -> torch.Tensor:  # (..., 3, 3) -> (..., 3, 3)
    x, y, z = (1.0 / L[..., i, i] for i in range(3))
    yx, zx, zy = L[..., 1, 0], L[..., 2, 0], L[..., 2, 1]
    return _matrix(x, -yx * x * y, y, (yx * zy * y - zx) * x * z, -zy * y * z, z)


def _matrix(xx, yx, yy, zx, zy, zz) -> torch.Tensor:
    zero = torch.zeros_like(xx)
    return torch.stack([xx, zero, zero, yx, yy, zero, zx, zy, zz], dim=-1).reshape(*xx.shape, 3, 3)
