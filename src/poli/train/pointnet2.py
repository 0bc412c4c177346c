"""The paper's network: PointNet++ (set abstraction, feature propagation, head), from points to one lower-triangular L each.

    points ─ sa1 ─ sa2 ─ ... ─┐    set abstraction: farthest points, their groups, a shared MLP, the maximum of each group
      │       │     │         │
    fp1 ─── fp2 ─ fp3 ─ ... ──┘    feature propagation: interpolation of the coarser level, joined with the features of this one
      │
    head ─ L                       six numbers: the diagonal (softplus), and the entries below it

Groups have up to `nearest` points, those within the radius; the paper fills smaller groups with their nearest point. Here every
point of a group is computed once and has a weight, how often it stands in the group: the maximum is the same, batch normalization
uses weighted statistics, and the network takes a fraction of the time, because most groups are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from poli.errors import DegenerateError
from poli.estimation.architecture import FLATTEST
from poli.estimation.pointnet2 import PointNet2
from poli.kdtree.tree import NARROWEST, KDTree, check_range
from poli.kernel import kernel

_EPSILON, _MOMENTUM = 1e-5, 0.1  # of batch normalization
_NEAREST = 3  # points of the coarser level that feature propagation interpolates
_START = -2.0  # bias of the diagonal before training: L starts at softplus(-2) = 0.13, the size of the residuals
_ROUND = 0.003  # standard deviation of the weights of the entries below it


# --- Sampling and grouping: indices only, without gradient.


class Groups(NamedTuple):
    """A level: its points, their groups in the level below, and how the points below interpolate it. Arrays or tensors."""

    centroids: Any  # (M,) int64, into the level below
    rows: Any  # (P,) int64, into the level below: the points of all groups, group after group
    owners: Any  # (P,) int64: the group of each
    weights: Any  # (P,) float32: how often each stands in its group
    near: Any  # (M below, 3) int64: the nearest points of this level to every point below
    shares: Any  # (M below, 3) float32: their weights, summing to one


@dataclass(frozen=True)
class SampledCloud:
    """The network's input for one cloud."""

    points: np.ndarray  # (N, 3) float32, scaled
    unit: float  # of L
    levels: tuple[Groups, ...]


def sample(points: np.ndarray, architecture: PointNet2) -> SampledCloud:  # (N, 3)
    """Scale a cloud, and sample and group its levels."""
    check_range(points, narrowest=NARROWEST)
    scaled, unit = _scaled(points, architecture)
    # Farthest point sampling of a level that was itself sampled this way returns its first points, so one pass serves all levels.
    order = np.empty(min(architecture.centroids[0], len(points)), np.int64)
    farthest_points(scaled, int(((scaled - scaled.mean(axis=0)) ** 2).sum(axis=1).argmax()), order)
    levels, below = [], scaled
    for number, (count, radius, k) in enumerate(zip(architecture.centroids, architecture.radii, architecture.nearest, strict=True)):
        centroids = order[:count] if number == 0 else np.arange(min(count, len(below)))
        positions = below[centroids]
        levels.append(Groups(centroids, *_ball(below, positions, radius, k), *_interpolation(below, positions)))
        below = positions
    return SampledCloud(scaled.astype(np.float32), unit, tuple(levels))


def _scaled(points: np.ndarray, architecture: PointNet2) -> tuple[np.ndarray, float]:  # (N, 3)
    if architecture.scale:
        return (points - np.array(architecture.mean)) / architecture.scale, 1.0
    centered = points - points.mean(axis=0)
    largest = float(np.sqrt((centered**2).sum(axis=1).max()))
    if not largest > 0.0:
        raise DegenerateError("all points coincide; there is no surface to estimate")
    return centered / largest, largest


@kernel
def farthest_points(points, first, chosen):
    """Choose points, each the farthest from those before it; `first` is the index of the first one."""
    nearest = np.full(len(points), np.inf)
    last = first
    for i in range(len(chosen)):
        chosen[i] = last
        x, y, z = points[last, 0], points[last, 1], points[last, 2]
        farthest = -1.0
        for j in range(len(points)):
            dx, dy, dz = points[j, 0] - x, points[j, 1] - y, points[j, 2] - z
            nearest[j] = min(nearest[j], dx * dx + dy * dy + dz * dz)
            if nearest[j] > farthest:
                farthest, last = nearest[j], j


def _ball(below: np.ndarray, centroids: np.ndarray, radius: float, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, owners and weights of the groups: the nearest `k` points within the radius, gaps filled with the nearest."""
    distances, nearest = KDTree(below).nearest(min(k, len(below)), centroids)
    inside = distances <= radius
    counts = inside.sum(axis=1)
    weights = np.ones(inside.sum(), np.float32)
    weights[np.cumsum(counts) - counts] += k - counts
    return nearest[inside].astype(np.int64), np.repeat(np.arange(len(counts)), counts), weights


def _interpolation(fine: np.ndarray, coarse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (M, 3), (M, 3)
    """Return the nearest coarse points and their weights, by inverse squared distance."""
    distances, nearest = KDTree(coarse).nearest(min(_NEAREST, len(coarse)), fine)
    shares = 1.0 / (distances**2 + 1e-8)
    return nearest.astype(np.int64), (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True)
class SampledBatch:
    """Several sampled clouds, concatenated, as tensors; indices are into the batch."""

    points: torch.Tensor  # (N, 3)
    units: torch.Tensor  # (N,)
    levels: tuple[Groups, ...]

    @staticmethod
    def of(clouds: Sequence[SampledCloud]) -> SampledBatch:
        """Concatenate clouds."""
        levels, below = [], np.cumsum([0, *(len(cloud.points) for cloud in clouds)])
        for number in range(len(clouds[0].levels)):
            each = [cloud.levels[number] for cloud in clouds]
            here = np.cumsum([0, *(len(groups.centroids) for groups in each)])
            starts = Groups(below, below, here, None, here, None)
            columns = (
                [part if start is None else part + start[i] for i, part in enumerate(parts)]
                for parts, start in zip(zip(*each, strict=True), starts, strict=True)
            )
            levels.append(Groups(*(torch.from_numpy(np.concatenate(parts)) for parts in columns)))
            below = here
        units = np.repeat(np.array([cloud.unit for cloud in clouds], np.float32), [len(cloud.points) for cloud in clouds])
        return SampledBatch(
            torch.from_numpy(np.concatenate([cloud.points for cloud in clouds])), torch.from_numpy(units), tuple(levels)
        )

    def to(self, device: torch.device) -> SampledBatch:
        """Return the batch on a device."""
        levels = tuple(Groups(*(part.to(device) for part in level)) for level in self.levels)
        return SampledBatch(self.points.to(device), self.units.to(device), levels)

    @property
    def frames(self) -> tuple[torch.Tensor]:  # (N, 3, 3)
        """The frames of L, as `GroupBatch` has them: those of the cloud."""
        return (torch.eye(3, device=self.points.device).expand(len(self.points), 3, 3),)


# --- The network.


class PointNet(nn.Module):
    """The paper's network. Rows of matrices are points, or points of groups."""

    def __init__(self, architecture: PointNet2) -> None:
        super().__init__()
        self.architecture = architecture
        self.calibration = 1.0  # factor for L
        shapes = architecture.tensor_shapes()
        for name, shape in shapes.items():
            owner: nn.Module = self
            *path, part = name.split(".")
            for step in path:  # modules without behavior: they give tensors the names of the authors' checkpoints
                if step not in owner._modules:
                    owner.add_module(step, nn.Module())
                owner = owner.get_submodule(step)
            if part.startswith("running"):
                owner.register_buffer(part, torch.ones(shape) if part.endswith("var") else torch.zeros(shape))
            else:
                owner.register_parameter(part, nn.Parameter(torch.ones(shape) if part == "weight" else torch.zeros(shape)))
            if len(shape) == 2:
                nn.init.kaiming_uniform_(owner.weight, a=5.0**0.5)  # type: ignore[arg-type]  # as torch does
        nn.init.constant_(self.get_parameter("final_conv_diag.bias"), _START)
        # Ellipsoids start nearly round: entries below the diagonal that are larger than it make L singular.
        nn.init.normal_(self.get_parameter("final_conv_triang.weight"), std=_ROUND)

    def forward(self, batch: SampledBatch) -> torch.Tensor:  # (N, 3, 3)
        """Return L of every point, C = L L', in the unit of the cloud."""
        positions, features = [batch.points], [batch.points]
        for number, groups in enumerate(batch.levels, 1):
            there, found = self._abstract(f"sa{number}", groups, positions[-1], features[-1])
            positions.append(there)
            features.append(found)
        coarse = features[-1]
        for number in range(len(batch.levels), 0, -1):
            skip = features[number - 1] if number > 1 else None
            coarse = self._propagate(f"fp{number}", batch.levels[number - 1], coarse, skip)
        return self._head(coarse) * (self.calibration * batch.units)[:, None, None]

    def sized(self, batch: SampledBatch) -> tuple[torch.Tensor, torch.Tensor]:  # (N, 3, 3), (N, 3, 3)
        """Return L and its frames, as `Network.sized` does. Sizes are not separate here: all of the network is trained."""
        return self(batch), batch.frames[0]

    def covariances(self, points: np.ndarray, position: np.ndarray | None) -> np.ndarray:  # (N, 3), (3,) -> (N, 3, 3)
        """Estimate C of every point, with the sensor at `position` (other positions are those of merged clouds, and not used)."""
        at_origin = points if position is None or position.ndim > 1 else points - position
        cloud = sample(at_origin, self.architecture)
        with torch.no_grad():
            batch = SampledBatch.of([replace(cloud, unit=1.0)]).to(self.get_parameter("conv1.bias").device)
            L = cloud.unit * self(batch).double().cpu().numpy()  # in some units not representable in float32
        with np.errstate(over="ignore", invalid="ignore"):
            C = L @ L.transpose(0, 2, 1)
            size = np.trace(C, axis1=1, axis2=2)
            if not (np.isfinite(size) & (size > 0.0)).all():
                raise DegenerateError(
                    "the network gives ellipsoids that are not finite or have no size: its weights are damaged, or the points are "
                    "far too large or too small; scale the points to meters"
                )
        return C + FLATTEST * size[:, None, None] * np.eye(3)

    def _abstract(
        self, block: str, groups: Groups, below: torch.Tensor, features: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:  # (M, 3), (M, C)
        """Set abstraction: an MLP of (offset from the centroid, features) of every point of a group, and their maximum."""
        centers = below[groups.centroids]
        offsets = below[groups.rows] - centers[groups.owners]
        first, *others = range(len(self.architecture.channels[int(block[2:]) - 1]))
        convolution = self.get_parameter(f"{block}.mlp_convs.{first}.weight")
        # The features are multiplied before they are gathered, which takes as many times less as a point is in groups.
        own = functional.linear(features, convolution[:, 3:], self.get_parameter(f"{block}.mlp_convs.{first}.bias"))
        x = functional.linear(offsets, convolution[:, :3]) + functional.embedding(groups.rows, own)
        x = self._normalize(f"{block}.mlp_bns.{first}", x, groups.weights)
        for i in others:
            x = self._layer(f"{block}.mlp_convs.{i}", f"{block}.mlp_bns.{i}", x, groups.weights)
        return centers, _Largest.apply(x, groups.owners, len(centers))

    def _propagate(self, block: str, groups: Groups, coarse: torch.Tensor, skip: torch.Tensor | None) -> torch.Tensor:  # (M, C)
        """Feature propagation: an MLP of (own features, interpolated features of the coarser level)."""
        x = (functional.embedding(groups.near, coarse) * groups.shares[:, :, None]).sum(1)
        x = x if skip is None else torch.cat([skip, x], dim=1)
        for i in range(len(self.architecture.propagated[int(block[2:]) - 1])):
            x = self._layer(f"{block}.mlp_convs.{i}", f"{block}.mlp_bns.{i}", x)
        return x

    def _head(self, x: torch.Tensor) -> torch.Tensor:  # (N, C) -> (N, 3, 3)
        x = self._layer("conv1", "bn1", x)
        diagonal = functional.softplus(self._linear("final_conv_diag", x)) + self.architecture.floor
        b = self._linear("final_conv_triang", x)
        a, zero = diagonal, torch.zeros_like(b[:, 0])
        rows = (a[:, 0], zero, zero, b[:, 0], a[:, 1], zero, b[:, 1], b[:, 2], a[:, 2])
        return torch.stack(rows, dim=1).unflatten(1, (3, 3))

    def _linear(self, layer: str, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.get_parameter(f"{layer}.weight"), self.get_parameter(f"{layer}.bias"))

    def _layer(self, layer: str, norm: str, x: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        return self._normalize(norm, self._linear(layer, x), weights)

    def _normalize(self, norm: str, x: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
        """Batch normalization and ReLU. Row i counts as `weights[i]` rows."""
        of: Any = self.get_submodule(norm)
        if not self.training:
            factor = of.weight * torch.rsqrt(of.running_var + _EPSILON)
            return torch.addcmul(of.bias - of.running_mean * factor, x, factor).relu_()
        weights = x.new_ones(len(x)) if weights is None else weights
        y, mean, variance, count = _Normalize.apply(x, weights, of.weight, of.bias)
        with torch.no_grad():
            of.running_mean.lerp_(mean, _MOMENTUM)
            of.running_var.lerp_(variance * (count / (count - 1.0)), _MOMENTUM)
        return y


class _Normalize(torch.autograd.Function):
    """Batch normalization by weighted statistics, and ReLU. torch has none with weights."""

    @staticmethod
    def forward(ctx, x, weights, gain, bias):  # (P, C), (P,), (C,), (C,)
        count = weights.sum()
        mean = (weights @ x) / count
        variance = (weights @ (x - mean).square_()) / count
        inverse = torch.rsqrt(variance + _EPSILON)
        factor = gain * inverse
        y = torch.addcmul(bias - mean * factor, x, factor).relu_()
        ctx.save_for_backward(x, y, weights / count, mean, inverse, factor)
        ctx.mark_non_differentiable(mean, variance, count)
        return y, mean, variance, count

    @staticmethod
    def backward(ctx, gradient, *_):
        x, y, shares, mean, inverse, factor = ctx.saved_tensors
        gradient = torch.ops.aten.threshold_backward(gradient, y, 0)  # of the ReLU
        of_bias = gradient.sum(0)
        of_gain = inverse * ((gradient * x).sum(0) - mean * of_bias)
        slope = inverse * of_gain  # the gradient through mean and variance is shares * (of_bias + slope * (x - mean))
        through = torch.addcmul(of_bias - slope * mean, x, slope).mul_(shares[:, None])
        return gradient.sub_(through).mul_(factor), None, of_gain, of_bias


class _Largest(torch.autograd.Function):
    """The maximum of each group. The gradient goes to the points that reach it; torch's own takes three times as long."""

    @staticmethod
    def forward(ctx, x, owners, count):  # (P, C) of a ReLU, (P,)
        y = x.new_zeros(count, x.shape[1]).scatter_reduce_(0, owners[:, None].expand_as(x), x, "amax")
        ctx.save_for_backward(x, y, owners)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, y, owners = ctx.saved_tensors
        return gradient[owners].mul_(x == y[owners]), None, None
