"""Rigid motions in torch, batched and differentiable, like `se3` in numpy; for rotations well below a half turn."""

from __future__ import annotations

import torch

# B_n / n!, with Bernoulli numbers B_n: the series of the inverse left Jacobian. At |xi| = 1 the omitted terms sum to 3e-8.
_BERNOULLI = {2: 1 / 12, 4: -1 / 720, 6: 1 / 30240, 8: -1 / 1209600}


def hat(v: torch.Tensor) -> torch.Tensor:  # (..., 3) -> (..., 3, 3)
    x, y, z = v.unbind(-1)
    o = torch.zeros_like(x)
    return torch.stack([o, -z, y, z, o, -x, -y, x, o], dim=-1).reshape(*v.shape, 3)


def inverse(T: torch.Tensor) -> torch.Tensor:  # (..., 4, 4)
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
