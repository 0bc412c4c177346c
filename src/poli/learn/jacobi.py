"""Eigenvalues and axes of many symmetric 3x3 matrices by sums and products alone, for files that know no `eigh` (ONNX has none)."""

from __future__ import annotations

from poli.errors import MissingExtra

try:
    import torch
except ImportError:
    raise MissingExtra("poli.learn", "train") from None

_SWEEPS = 4  # cyclic Jacobi converges quadratically: after four, to rounding; a fixed number, because a graph has no branches


def eigh3(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # (N, 3, 3) -> (N, 3), (N, 3, 3), float64
    """Ascending eigenvalues, and eigenvectors as columns, of either handedness."""
    A = matrices.double()
    size = _or_one(A.abs().amax(dim=(1, 2)))  # so that squares neither overflow nor vanish
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
    """To divide zeros by. A tiny number added would do as well, but exporters take it for zero and leave it out."""
    return torch.where(values > 0.0, values, torch.ones_like(values))
