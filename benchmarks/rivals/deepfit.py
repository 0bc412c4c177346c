"""DeepFit, a learned estimator of normals, reimplemented at a small scale from its paper.

Y. Ben-Shabat and S. Gould, "DeepFit: 3D Surface Fitting via Neural Network Weighted Least Squares", ECCV 2020. A PointNet sees the
k nearest points of a point, in the frame of their principal axes, and gives each a weight. A surface fitted to the weighted points
gives the normal: a plane (a jet of order 1) or a quadric (order 2). It is supervised: the true normals are its labels.

Different from the paper: about 50,000 weights instead of millions, layer normalization instead of batch normalization, one network
for several sizes of patches and both orders, and no learned rotation of the patch. The frame of a jet is the weighted plane of the
same points instead, since in sparse clouds the plain principal axes are often far off.

The weights of a patch are relative to its largest one, and may be 10,000 times smaller. The paper's are a sigmoid plus 0.01, and
its loss rewards their logarithms. A fit depends on the ratios of weights only, so nothing opposes that reward: on sparse clouds all
weights reach one, where the sigmoid is flat, and the normals stay those of equal weights. Ratios above 100 matter, too: the best
powers of the inverse distance, 4 to 6, have them. After 300 steps the best errors on held-out shapes, in degrees, RMSE / median,
were 36.3 / 20.9 with the paper's weights and 1/25 of its reward, 34.7 / 17.5 without the reward, 34.3 / 15.9 with relative weights.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from poli.errors import FormatError
from poli.kdtree.tree import KDTree

WEIGHTS = Path(__file__).with_name("deepfit.safetensors")
ORDERS = (1, 2)  # of the jet
NEIGHBORS = (8, 12, 16, 24, 32)  # sizes of patches at test
LEAST_NEIGHBORS = {1: 4, 2: 8}  # more than the coefficients of a plane; a quadric has six, and is damped
_WIDTHS, _GLOBAL, _HEAD = (48, 64, 96), 192, (64, 32)
_LEAST_WEIGHT = 1e-4  # relative to the largest of a patch, so that a fit is always determined
_DAMPING = 1e-3  # of the coefficients of a jet, relative to the total weight
_GAP = 1e-3  # smallest difference of eigenvalues in derivatives, relative to their sum
_BATCH = 4096  # patches at a time at test


class PointWeights(nn.Module):
    """A PointNet from patches (B, k, 3), in units of their radius, to weights of each point by order of jet (B, k, orders).

    The largest weight of a patch is one."""

    def __init__(self) -> None:
        super().__init__()
        near, far = (3, *_WIDTHS), (_WIDTHS[-1], _GLOBAL)
        self.local = nn.ModuleList(_layer(*shape) for shape in pairwise(near))
        self.whole = _layer(*far)
        # The first layer of the head takes a point's own features and those of its patch. Computed in two parts, since the second
        # is the same for all points of a patch.
        self.own, self.shared = nn.Linear(_WIDTHS[-1], _HEAD[0]), nn.Linear(_GLOBAL, _HEAD[0], bias=False)
        self.head = nn.Sequential(nn.LayerNorm(_HEAD[0]), nn.ReLU(), _layer(*_HEAD), nn.Linear(_HEAD[1], len(ORDERS)))

    def forward(self, patches: Tensor) -> Tensor:
        features = patches
        for layer in self.local:
            features = layer(features)
        whole = self.whole(features).amax(dim=1)
        logs = self.head(self.own(features) + self.shared(whole)[:, None])
        return torch.exp(logs - logs.amax(dim=1, keepdim=True)) + _LEAST_WEIGHT


def _layer(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.LayerNorm(outputs), nn.ReLU())


def patches_of(points: np.ndarray, k: int, rows: np.ndarray | None = None) -> tuple[Tensor, Tensor]:
    """The k nearest points of each point, or of each in `rows`, relative to it in units of the farthest one, in the frame of their
    principal axes (M, k, 3); and the axes as columns, the one of least variance last (M, 3, 3)."""
    index = KDTree(points)
    centers = index.points if rows is None else index.points[rows]
    distances, found = index.nearest(min(k, len(points)), None if rows is None else centers)
    around = index.points[found] - centers[:, None]
    around /= np.maximum(distances[:, -1], 1e-12)[:, None, None]
    centered = around - around.mean(axis=1, keepdims=True)
    axes = np.ascontiguousarray(np.linalg.eigh(np.einsum("nki,nkj->nij", centered, centered))[1][:, :, ::-1])
    return torch.from_numpy(np.matmul(around, axes).astype(np.float32)), torch.from_numpy(axes.astype(np.float32))


def fit(patches: Tensor, weights: Tensor, order: int) -> Tensor:  # (B, k, 3), (B, k) -> (B, 3)
    """Unit normals of the weighted surface at the center of each patch; differentiable."""
    total = weights.sum(dim=1)
    mean = (weights[..., None] * patches).sum(dim=1) / total[:, None]
    centered = patches - mean[:, None]
    covariance = torch.einsum("bk,bki,bkj->bij", weights, centered, centered) / total[:, None, None]
    normal, along, across = _plane(covariance)
    if order == 1:
        return normal
    x, y, z = (torch.einsum("bki,bi->bk", patches, axis) for axis in (along, across, normal))
    terms = torch.stack([torch.ones_like(x), x, y, x * x, x * y, y * y], dim=2)  # (B, k, 6)
    weighted = terms * weights[..., None]
    # Half for xy: then the damping, like the jet, is the same for every choice of axes in the plane.
    damping = _DAMPING * total[:, None, None] * torch.diag(terms.new_tensor([1.0, 1.0, 1.0, 1.0, 0.5, 1.0]))
    beta = torch.linalg.solve(weighted.mT @ terms + damping, weighted.mT @ z[..., None])[..., 0]
    return torch.nn.functional.normalize(normal - beta[:, 1, None] * along - beta[:, 2, None] * across, dim=1)


def _plane(covariance: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (B, 3, 3) -> three (B, 3)
    """The eigenvector of the least eigenvalue, and two axes of its plane.

    Values come from an eigendecomposition without derivatives. The derivative of an eigenvector is a sum over the others, in which
    nearly equal eigenvalues are kept apart: elsewhere it is exact, and nowhere infinite."""
    with torch.no_grad():
        values, axes = torch.linalg.eigh(covariance)
        gaps = torch.minimum(values[:, :1] - values[:, 1:], -_GAP * values.sum(dim=1, keepdim=True) - 1e-12)
    least, others = axes[:, :, 0], axes[:, :, 1:]
    # Zero up to rounding, but its derivative is not.
    turn = (others.mT @ covariance @ least[..., None])[..., 0] / gaps
    normal = torch.nn.functional.normalize(least + (others @ (turn - turn.detach())[..., None])[..., 0], dim=1)
    along, across = (others[:, :, i] - normal * (normal * others[:, :, i]).sum(dim=1, keepdim=True) for i in (1, 0))
    return normal, along, across


def deepfit_normals(points: np.ndarray, k: int, order: int, path: Path = WEIGHTS) -> np.ndarray:  # (N, 3) -> (N, 3)
    """Estimate unit normals by the trained network and jets of this order. Their signs are arbitrary."""
    return normals_by(load(path), points, k, order)


def normals_by(network: PointWeights, points: np.ndarray, k: int, order: int) -> np.ndarray:  # (N, 3) -> (N, 3)
    patches, axes = patches_of(points, max(k, LEAST_NEIGHBORS[order]))
    with torch.no_grad():
        parts = [fit(batch, network(batch)[..., ORDERS.index(order)], order) for batch in patches.split(_BATCH)]
        return (axes @ torch.cat(parts)[..., None])[..., 0].numpy().astype(np.float64)


def trained_steps(path: Path = WEIGHTS) -> str:
    """The number of steps that the weights were trained for, so that a table can say how much of a rival it shows."""
    with safe_open(path, framework="numpy") as file:
        return (file.metadata() or {}).get("steps", "an unknown number of")


@cache
def load(path: Path) -> PointWeights:
    """Read a network written by `python -m benchmarks deepfit`."""
    network = PointWeights()
    try:
        with safe_open(path, framework="pt") as file:
            network.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (OSError, SafetensorError, RuntimeError) as error:
        raise FormatError(
            f"{path}: no weights of DeepFit ({str(error)[:200]}); `python -m benchmarks deepfit` writes them"
        ) from None
    return network.eval().requires_grad_(False)
