"""RPM-Net, a learned registration of objects, reimplemented at a small scale from its paper.

Z. J. Yew and G. H. Lee, "RPM-Net: Robust Point Matching Using Learned Features", CVPR 2020. Each point has a feature learned from
its coordinates, its neighbors' offsets and their point pair features. Differences of features become matches by annealing, whose
two parameters a second network predicts, and by Sinkhorn's normalization with slack; a weighted Procrustes problem gives the pose.
This repeats with the moved source. It is supervised: the true poses are its labels.

Different from the paper: about 30,000 weights instead of 900,000, layer normalization instead of group normalization, training on
our procedural shapes instead of ModelNet40, and normals by PCA instead of those of the meshes, as at test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from poli.errors import FormatError

WEIGHTS = Path(__file__).with_name("rpm_net.safetensors")
ITERATIONS = 5  # at test, as in the paper
_SINKHORN = 5
_RADIUS, _NEIGHBORS = 0.3, 32  # of features; the paper's radius, and half its neighbors
_BEFORE, _AFTER, _WIDTH = (10, 32, 32, 64), (64, 64), 64  # widths before and after the maximum over the neighbors; of a feature
_NEAR, _WHOLE = (4, 32, 64, 128), (128, 64)  # of the network of the annealing
_SHARPNESS = 5.0  # of the matches at the start of training, where those of the paper are nearly uniform, and learn slowly
_EPS = 1e-5


@dataclass(frozen=True)
class Neighborhoods:
    """Clouds with random neighbors of each point. A motion changes points and offsets, but not the point pair features."""

    points: Tensor  # (B, N, 3)
    offsets: Tensor  # (B, N, K, 3)
    pairs: Tensor  # (B, N, K, 4): three angles and a distance

    def moved(self, T: Tensor) -> Neighborhoods:  # (B, 3, 4)
        R = T[:, :, :3].mT
        return Neighborhoods(self.points @ R + T[:, None, :, 3], self.offsets @ R[:, None], self.pairs)


def neighborhoods(points: Tensor, normals: Tensor) -> Neighborhoods:  # (B, N, 3), (B, N, 3)
    """Take the first points within the radius, in the order of the cloud, which is random; then the point itself."""
    count = points.shape[1]
    rank = torch.arange(count).expand(points.shape[0], count, count)
    near = torch.cdist(points, points) <= _RADIUS
    most = min(_NEIGHBORS, int(near.sum(dim=2).max()))
    first = torch.where(near, rank, count).topk(most, dim=2, largest=False).values
    first = torch.where(first == count, torch.arange(count)[:, None], first)
    cloud = torch.arange(len(points))[:, None, None]
    offsets, others, own = points[cloud, first] - points[:, :, None], normals[cloud, first], normals[:, :, None]
    angles = [_angle(own, offsets), _angle(others, offsets), _angle(own.expand_as(others), others)]
    pairs = torch.stack([*angles, torch.linalg.norm(offsets, dim=-1)], dim=-1)
    return Neighborhoods(points, offsets, pairs)


def _angle(a: Tensor, b: Tensor) -> Tensor:  # (..., 3), (..., 3) -> (...)
    return torch.atan2(torch.linalg.norm(torch.linalg.cross(a.expand_as(b), b), dim=-1), (a * b).sum(dim=-1))


class Features(nn.Module):
    """A feature of unit length per point, (B, N, C)."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = _layers(_BEFORE), _layers(_AFTER)
        self.last = nn.Linear(_AFTER[-1], _WIDTH)

    def forward(self, around: Neighborhoods) -> Tensor:
        centers = around.points[:, :, None].expand_as(around.offsets)
        pooled = self.before(torch.cat([centers, around.offsets, around.pairs], dim=-1)).amax(dim=2)
        return nn.functional.normalize(self.last(self.after(pooled)), dim=-1)


class Annealing(nn.Module):
    """The sharpness beta of the matches and the squared distance alpha beyond which points are outliers, (B,) each; from both
    clouds, told apart by a fourth coordinate."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.whole = _layers(_NEAR), _layers(_WHOLE)
        self.last = nn.Linear(_WHOLE[-1], 2)
        self.last.bias.data = torch.tensor([_SHARPNESS, 0.0])

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([nn.functional.pad(cloud, (0, 1), value=float(i)) for i, cloud in enumerate((source, target))], dim=1)
        beta, alpha = nn.functional.softplus(self.last(self.whole(self.near(both).amax(dim=1)))).unbind(dim=1)
        return beta, alpha


class RpmNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.annealing = Features(), Annealing()

    def forward(self, source: Neighborhoods, target: Neighborhoods, iterations: int) -> list[tuple[Tensor, Tensor]]:
        """Poses T_target_source (B, 3, 4) and matches (B, N, M) of all iterations, the last one the best."""
        found: list[tuple[Tensor, Tensor]] = []
        moved, of_target = source, self.features(target)
        for _ in range(iterations):
            beta, alpha = self.annealing(moved.points, target.points)
            squared = 2.0 - 2.0 * self.features(moved) @ of_target.mT
            matches = sinkhorn(-beta[:, None, None] * (squared - alpha[:, None, None])).exp()
            trust = matches.sum(dim=2)
            T = procrustes(source.points, matches @ target.points / (trust[..., None] + _EPS), trust)
            found.append((T, matches))
            moved = source.moved(T.detach())
        return found


def sinkhorn(logs: Tensor) -> Tensor:  # (B, N, M) -> (B, N, M)
    """Logarithms of matches whose rows and columns sum to at most one: a row and a column of slack take what has no match."""
    padded = nn.functional.pad(logs, (0, 1, 0, 1))
    for _ in range(_SINKHORN):
        rows = padded[:, :-1]
        padded = torch.cat([rows - rows.logsumexp(dim=2, keepdim=True), padded[:, -1:]], dim=1)
        columns = padded[:, :, :-1]
        padded = torch.cat([columns - columns.logsumexp(dim=1, keepdim=True), padded[:, :, -1:]], dim=2)
    return padded[:, :-1, :-1]


def procrustes(source: Tensor, target: Tensor, weights: Tensor) -> Tensor:  # (B, N, 3), (B, N, 3), (B, N) -> (B, 3, 4)
    """The pose of least weighted squares, differentiable. In double precision, since close singular values amplify rounding."""
    p, q, w = source.double(), target.double(), weights.double()[..., None]
    w = w / (w.sum(dim=1, keepdim=True) + _EPS)
    p_mean, q_mean = (p * w).sum(dim=1), (q * w).sum(dim=1)
    u, _, vt = torch.linalg.svd((p - p_mean[:, None]).mT @ ((q - q_mean[:, None]) * w))
    sign = torch.ones_like(p_mean)
    sign[:, 2] = torch.linalg.det(vt.mT @ u.mT).sign().detach()
    R = vt.mT @ (sign[..., None] * u.mT)
    return torch.cat([R, (q_mean[..., None] - R @ p_mean[..., None])], dim=2).to(source.dtype)


def _layers(widths: Sequence[int]) -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()) for a, b in pairwise(widths)))


Cloud = tuple[np.ndarray, np.ndarray]  # points and unit normals, (N, 3) each


def rpm_net_pose(source: Cloud, target: Cloud, path: Path = WEIGHTS) -> np.ndarray:  # -> (4, 4)
    """T_target_source by the trained network, of clouds in the unit sphere."""
    return pose_by(load(path), source, target)


def pose_by(network: RpmNet, source: Cloud, target: Cloud, iterations: int = ITERATIONS) -> np.ndarray:  # -> (4, 4)
    around = [neighborhoods(*(torch.from_numpy(a.astype(np.float32))[None] for a in cloud)) for cloud in (source, target)]
    with torch.no_grad():
        T, _ = network(*around, iterations)[-1]
    return np.vstack([T[0].double().numpy(), [0.0, 0.0, 0.0, 1.0]])


def trained_steps(path: Path = WEIGHTS) -> str:
    """The number of steps that the weights were trained for, so that a table can say how much of a rival it shows."""
    with safe_open(path, framework="numpy") as file:
        return (file.metadata() or {}).get("steps", "an unknown number of")


@cache
def load(path: Path) -> RpmNet:
    """Read a network written by `python -m benchmarks rpm_net`."""
    network = RpmNet()
    try:
        with safe_open(path, framework="pt") as file:
            network.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (OSError, SafetensorError, RuntimeError) as error:
        raise FormatError(
            f"{path}: no weights of RPM-Net ({str(error)[:200]}); `python -m benchmarks rpm_net` writes them"
        ) from None
    return network.eval().requires_grad_(False)
