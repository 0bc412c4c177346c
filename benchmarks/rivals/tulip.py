"""TULIP, learned upsampling of range images, reimplemented at a small scale after its paper.

B. Yang et al., "TULIP: Transformer for Upsampling of LiDAR Point Clouds", CVPR 2024. A range image of 16 rows and 1,024 columns
becomes one of four times the rows; points that are too uncertain are left out. It is supervised: scans of all rows are its labels.

Different from the paper: a convolutional U-Net of about 120,000 weights instead of Swin transformers of 27 million; training on our
simulated worlds instead of KITTI, with several sensors, whose elevations are an input; an uncertainty that the network predicts
instead of Monte Carlo dropout; only rows between rings, none above the highest; and a range is a mixture of the ranges of the two
rings and their interpolation, times a factor, so that training starts from interpolation.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from benchmarks.data.rings import nearest_ring
from poli.errors import FormatError, InputError

WEIGHTS = Path(__file__).with_name("tulip.safetensors")
RINGS, FACTOR, COLUMNS = 16, 4, 1024
_NEW = FACTOR - 1  # rows between two rings
_WIDTHS = (16, 24, 32, 48)  # channels by level
_STRIDES = ((1, 2), (2, 2), (2, 2))  # rows, columns
_PARTS = 6  # per new pixel: three parts of the mixture, a factor, whether there is a return, and the spread of its logarithm
_SCALE = (3.0, 20.0)  # of the inputs: logarithms of meters, and degrees
_LARGEST_FACTOR = 0.3  # logarithm
LEAST_SPREAD = 1e-3  # relative to the range
# New points are kept if a return is more likely than not, and its expected error is at most the larger of these two.
_ERROR, _RELATIVE_ERROR = 0.2, 0.02  # meters; relative to the range


class Upsampling(nn.Module):
    """From ranges (B, 16, W), zero without return, and elevations (B, 16) in degrees to the new rows between two rings each:
    logarithms of their ranges, logits of a return, and logarithms of the spread, (B, 15, 3, W) each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = _block(3, _WIDTHS[0])
        self.down = nn.ModuleList(_block(a, b, stride) for (a, b), stride in zip(pairwise(_WIDTHS), _STRIDES, strict=True))
        self.up = nn.ModuleList(_block(a + b, a) for a, b in pairwise(_WIDTHS))
        self.last = nn.Conv2d(_WIDTHS[0], _NEW * _PARTS, 1)
        interpolation = torch.tensor([0.0, 0.0, 4.0, 0.0, 1.0, -3.0]).repeat(_NEW)
        self.last.load_state_dict({"weight": torch.zeros_like(self.last.weight), "bias": interpolation})

    def forward(self, ranges: Tensor, elevations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        seen = ranges > 0.0
        logs = torch.where(seen, ranges, 1.0).log()
        rows = elevations[:, :, None].expand_as(ranges)
        x = self.first(torch.stack([(logs - _SCALE[0]) * seen, seen.to(logs.dtype), rows / _SCALE[1]], dim=1))
        levels = [x]
        for down in self.down:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for skip, up in zip(reversed(levels), reversed(self.up), strict=True):
            x = up(torch.cat([skip, nn.functional.interpolate(x, skip.shape[2:])], dim=1))
        parts = self.last(x)[:, :, :-1].unflatten(1, (_NEW, _PARTS)).permute(2, 0, 3, 1, 4)  # parts, batch, gap, row, column
        known = torch.stack(_candidates(logs, seen))
        found = (parts[:3].softmax(dim=0) * known).sum(dim=0) + _LARGEST_FACTOR * torch.tanh(parts[3])
        return found, parts[4], parts[5]


def _candidates(logs: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (B, 16, W) -> three (B, 15, 3, W)
    """Logarithms of the ranges of the ring below, of the one above, and of their interpolation, in which inverse ranges are linear:
    exact on planes. Where one is missing, it is the other."""
    below, above = (torch.where(seen[:, a], logs[:, a], logs[:, b]) for a, b in ((_BELOW, _ABOVE), (_ABOVE, _BELOW)))
    t = torch.arange(1, FACTOR, dtype=logs.dtype)[:, None] / FACTOR
    near, far = below[:, :, None], above[:, :, None]
    between = -torch.log((1.0 - t) * torch.exp(-near) + t * torch.exp(-far))
    return near.expand_as(between), far.expand_as(between), between


_BELOW, _ABOVE = slice(None, -1), slice(1, None)


class _Circular(nn.Module):
    """A convolution of 3 by 3 pixels; columns go around, and the outermost rows are repeated."""

    def __init__(self, inputs: int, outputs: int, stride: tuple[int, int] = (1, 1)) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 3, stride)

    def forward(self, x: Tensor) -> Tensor:
        around = nn.functional.pad(x, (1, 1, 0, 0), mode="circular")
        return self.convolution(nn.functional.pad(around, (0, 0, 1, 1), mode="replicate"))


def _block(inputs: int, outputs: int, stride: tuple[int, int] = (1, 1)) -> nn.Sequential:
    steps = [_Circular(inputs, outputs, stride), nn.GroupNorm(4, outputs), nn.ReLU(), _Circular(outputs, outputs), nn.ReLU()]
    return nn.Sequential(*steps)


def range_image(points: np.ndarray, elevations: np.ndarray, columns: int = COLUMNS) -> np.ndarray:  # (N, 3), (K,) -> (K, columns)
    """Ranges by ring and azimuth, the nearest return of each pixel; zero without return."""
    ranges = np.linalg.norm(points, axis=1)
    points, ranges = points[ranges > 0.0], ranges[ranges > 0.0]
    azimuths = np.arctan2(points[:, 1], points[:, 0]) / (2.0 * np.pi)
    image = np.full((len(elevations), columns), np.inf, np.float32)
    np.minimum.at(image, (nearest_ring(points, elevations), np.floor(azimuths * columns).astype(int) % columns), ranges)
    return np.where(np.isinf(image), np.float32(0.0), image)


def points_of_image(image: np.ndarray, elevations: np.ndarray) -> np.ndarray:  # (K, W), (K,) degrees -> (M, 3)
    """The points of pixels with a range, at the centers of their columns."""
    rows, columns = np.nonzero(image)
    azimuth, up = 2.0 * np.pi * (columns + 0.5) / image.shape[1], np.radians(elevations[rows])
    lines = np.stack([np.cos(up) * np.cos(azimuth), np.cos(up) * np.sin(azimuth), np.sin(up)], axis=1)
    return image[rows, columns, None] * lines


def upsample(points: np.ndarray, elevations: np.ndarray, path: Path = WEIGHTS) -> np.ndarray:  # (N, 3), (16,) -> (M, 3)
    """Return the points of a scan of 16 rings, followed by the new rows between them."""
    if len(elevations) != RINGS:
        raise InputError(f"elevations has {len(elevations)} rings; TULIP upsamples {RINGS}")
    return upsample_by(load(path), points, elevations)


def upsample_by(network: Upsampling, points: np.ndarray, elevations: np.ndarray) -> np.ndarray:  # (N, 3), (16,) -> (M, 3)
    image = range_image(points, elevations)
    with torch.no_grad():
        logs, logits, spreads = network(torch.from_numpy(image)[None], torch.from_numpy(elevations.astype(np.float32))[None])
    ranges = logs[0].exp()
    error = ranges * (spreads[0].exp() + LEAST_SPREAD)
    kept = (logits[0] > 0.0) & (error <= torch.clamp(_RELATIVE_ERROR * ranges, min=_ERROR))
    new = torch.where(kept, ranges, 0.0).flatten(0, 1).numpy()
    return np.concatenate([points, points_of_image(new, new_elevations(elevations)).astype(points.dtype)])


def new_elevations(elevations: np.ndarray) -> np.ndarray:  # (16,) -> (45,)
    """Elevations of the new rows, evenly spaced between two rings."""
    t = np.arange(1, FACTOR) / FACTOR
    return ((1.0 - t) * elevations[:-1, None] + t * elevations[1:, None]).ravel()


def trained_steps(path: Path = WEIGHTS) -> str:
    """The number of steps that the weights were trained for, so that a table can say how much of a rival it shows."""
    with safe_open(path, framework="numpy") as file:
        return (file.metadata() or {}).get("steps", "an unknown number of")


@cache
def load(path: Path) -> Upsampling:
    """Read a network written by `python -m benchmarks tulip`."""
    network = Upsampling()
    try:
        with safe_open(path, framework="pt") as file:
            network.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (OSError, SafetensorError, RuntimeError) as error:
        raise FormatError(f"{path}: no weights of TULIP ({str(error)[:200]}); `python -m benchmarks tulip` writes them") from None
    return network.eval().requires_grad_(False)
