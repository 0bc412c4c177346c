"""A trained network without torch: read its weights, and run them in numpy on grouped points.

It does what `learn.network` does, operation by operation; a test holds the two together.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from poli.ellipsoids.symmetric3 import cholesky3, eigh3
from poli.errors import FormatError, PoliError
from poli.estimation.architecture import DISTANCE_PRIOR, THINNEST, Architecture
from poli.estimation.grouping import Grouping, Interpolation, Level, Sight, group

MODEL_FORMAT = "poli model 1"


@dataclass(frozen=True)
class _Features:
    scalars: np.ndarray  # (M, scalars)
    vectors: np.ndarray  # (M, vectors, 3), in the common frame


@dataclass(frozen=True)
class Model:
    name: str
    architecture: Architecture
    calibration: float  # L is multiplied by it, so that d'(2C)^-1 d is 3 on average
    weights: dict[str, np.ndarray]  # "down0.edge.weight" (out, in) and "down0.edge.bias" (out,), float32
    metadata: dict[str, str]

    def covariances(self, points: np.ndarray, sight: Sight = Sight()) -> np.ndarray:  # (N, 3) -> (N, 3, 3)  # noqa: B008
        """Calibrated: matched points of two clouds of this density differ by N(0, 2 C)."""
        grouping = group(points, self.architecture, sight)
        scalars = self._features(grouping)
        L, hidden = self._ellipsoids(grouping.levels[0], scalars)
        variances, axes = eigh3(L @ np.swapaxes(L, 1, 2))
        variances = np.maximum(variances, self.architecture.floor**4)  # rounding may take away what is far smaller than the rest
        if self.architecture.size:
            known = np.concatenate([scalars, grouping.context, np.log(variances).astype(np.float32)], axis=1)
            hidden = _relu(self._map("size.hidden", known))
        variances *= np.exp(self._map("size.out", hidden).astype(np.float64))  # sizes; the directions stay
        variances[:, 0] = np.minimum(variances[:, 0], THINNEST * variances[:, 1:].min(axis=1))
        variances *= (self.calibration * grouping.spacing[:, None]) ** 2
        axes = grouping.levels[0].frames @ axes
        return (axes * variances[:, None, :]) @ np.swapaxes(axes, 1, 2)

    def _features(self, grouping: Grouping) -> np.ndarray:  # (N, scalars)
        features: list[_Features] = []  # by level
        for number, level in enumerate(grouping.levels):
            node = self._encode(number, level, features[-1] if number else None, grouping.context)
            features.append(self._split(node, level.frames, number))
        coarse = features[-1]
        for number in reversed(range(self.architecture.levels - 1)):
            frames = grouping.levels[number].frames
            node = self._interpolate(number, grouping.interpolations[number], frames, coarse, features[number])
            coarse = self._split(node, frames, number)
        return coarse.scalars

    def _encode(
        self, number: int, level: Level, below: _Features | None, context: np.ndarray
    ) -> np.ndarray:  # -> (M, scalars + 3 vectors)
        name = f"down{number}"
        if below is None:
            hidden = self._map(f"{name}.place", _squares(level.offsets[:, : self.architecture.neighbours[0]]))
            if self.architecture.context:
                hidden += self._map(f"{name}.context", context)[:, None]
            own = [context]
        else:
            place = np.concatenate([level.offsets, _turn(below.vectors[level.neighbours], level.frames)], axis=2)
            hidden = self._map(f"{name}.place", place) + self._map(f"{name}.feature", below.scalars)[level.neighbours]
            own = [below.scalars[level.centres], _turn(below.vectors[level.centres][:, None], level.frames)[:, 0]]
        hidden = _relu(self._map(f"{name}.edge", _relu(hidden)))
        return self._map(f"{name}.node", np.concatenate([hidden.max(axis=1), hidden.mean(axis=1), *own], axis=1))

    def _interpolate(
        self, number: int, how: Interpolation, frames: np.ndarray, coarse: _Features, own: _Features
    ) -> np.ndarray:  # -> (M, scalars + 3 vectors)
        name = f"up{number}"
        place = np.concatenate([how.offsets, _turn(coarse.vectors[how.neighbours], frames)], axis=2)
        hidden = self._map(f"{name}.place", place) + self._map(f"{name}.feature", coarse.scalars)[how.neighbours]
        read = (_relu(hidden) * how.weights[:, :, None]).sum(axis=1)
        return self._map(f"{name}.node", np.concatenate([read, own.scalars, _turn(own.vectors[:, None], frames)[:, 0]], axis=1))

    def _split(self, node: np.ndarray, frames: np.ndarray, number: int) -> _Features:
        width = self.architecture.scalars[number]
        return _Features(_relu(node[:, :width]), node[:, width:].reshape(len(node), -1, 3) @ np.swapaxes(frames, 1, 2))

    def _ellipsoids(self, level: Level, scalars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3, 3), (N, head)
        """L in the own frame and in local spacings, before it is stretched, and the features that the stretch hangs on."""
        x, near = level.offsets, level.neighbours
        wide = bool(self.architecture.wide)
        place = squares = _squares(_drawn_in(x) if wide else x)
        prior = -DISTANCE_PRIOR * np.log1p((x * x).sum(axis=2, keepdims=True)) if wide else 0.0
        reader = scalars
        hidden = _relu(self._map("head.hidden", scalars))
        L = np.zeros((len(x), 3, 3))
        for r in range(self.architecture.rounds):
            if r > 0:
                deviations = np.log1p(_deviations(x, near, level.frames, L.astype(np.float32)))
                place = np.concatenate([squares, deviations], axis=2)
                reader = np.concatenate([scalars, _logarithm(L).astype(np.float32)], axis=1)
            edge = self._map(f"attend{r}.place", place) + self._map(f"attend{r}.reader", reader)[:, None]
            edge += self._map(f"attend{r}.neighbour", scalars)[near]
            attention = _softmax(self._map(f"attend{r}.out", _relu(edge)) + prior)  # (N, k, heads)
            out = self._map(f"shape{r}.out", hidden).astype(np.float64)
            share = np.logaddexp(0.0, out[:, 6:] - 4.0)  # (N, heads)
            means = np.swapaxes(attention, 1, 2) @ x  # (N, heads, 3)
            weights = np.einsum("nkh,nh->nk", attention, share)
            moments = np.swapaxes(weights[:, :, None] * x, 1, 2) @ x
            moments -= 0.75 * np.swapaxes(share[:, :, None] * means, 1, 2) @ means
            B = lower_triangular(out[:, :6], self.architecture.floor)
            # Sums of squares with a positive diagonal: positive definite, but for what rounding takes away, which is put back.
            C = moments + B @ np.swapaxes(B, 1, 2)
            L = cholesky3(0.5 * (C + np.swapaxes(C, 1, 2)))
            L[:, [0, 1, 2], [0, 1, 2]] = np.maximum(L[:, [0, 1, 2], [0, 1, 2]], self.architecture.floor)
        return L, hidden

    def _map(self, name: str, values: np.ndarray) -> np.ndarray:
        flat = values.reshape(-1, values.shape[-1]) @ self.weights[f"{name}.weight"].T
        flat += self.weights[f"{name}.bias"]
        return flat.reshape(*values.shape[:-1], -1)


def read_model(path: str | os.PathLike[str]) -> Model:
    """What `poli train` wrote as model.safetensors."""
    path = Path(path)
    if not path.is_file():
        raise FormatError(f"{path}: no such model file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != MODEL_FORMAT:
                raise FormatError(f"{path}: not a model; `poli train` writes one as model.safetensors")
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        architecture = Architecture.from_dict(json.loads(metadata["architecture"]))
        calibration = float(metadata["calibration"])
        name = metadata["name"]
        if not 0.0 < calibration < np.inf:
            raise FormatError(f"{path}: its calibration is {calibration}; expected a positive number")
    except FormatError:
        raise
    except (SafetensorError, PoliError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{path}: a damaged model file ({error})") from None
    for layer, (inputs, outputs) in architecture.linear_shapes().items():
        for part, shape in ((f"{layer}.weight", (outputs, inputs)), (f"{layer}.bias", (outputs,))):
            tensor = weights.get(part)
            if tensor is None or tensor.shape != shape or tensor.dtype != np.float32 or not np.isfinite(tensor).all():
                raise FormatError(f"{path}: tensor '{part}' is missing, not finite, or not float32 of shape {shape}")
    return Model(name, architecture, calibration, weights, metadata)


def lower_triangular(six: np.ndarray, floor: float) -> np.ndarray:  # (N, 6) -> (N, 3, 3)
    """Six numbers (xx, yx, yy, zx, zy, zz) to a lower-triangular matrix whose diagonal is above `floor`."""
    L = np.zeros((len(six), 3, 3))
    L[:, [1, 2, 2], [0, 0, 1]] = six[:, [1, 3, 4]]
    L[:, [0, 1, 2], [0, 1, 2]] = 0.5 * np.logaddexp(0.0, six[:, [0, 2, 5]] - 1.5) + floor
    return L


def _squares(x: np.ndarray) -> np.ndarray:  # (N, k, 3) -> (N, k, 9)
    return np.concatenate([x, x * x, x * np.roll(x, 1, axis=2)], axis=2)


def _drawn_in(x: np.ndarray) -> np.ndarray:  # (N, k, 3) -> (N, k, 3)
    length = np.sqrt((x * x).sum(axis=2, keepdims=True)) + np.float32(1e-6)
    return x * (np.arcsinh(length) / length)


def _turn(vectors: np.ndarray, frames: np.ndarray) -> np.ndarray:  # (M, k, V, 3), (M, 3, 3) -> (M, k, 3 V)
    m, k, v, _ = vectors.shape
    return (vectors.reshape(m, k * v, 3) @ frames).reshape(m, k, 3 * v)


def _deviations(x: np.ndarray, near: np.ndarray, frames: np.ndarray, L: np.ndarray) -> np.ndarray:  # -> (N, k, 2)
    """Squared distances in standard deviations: of a neighbour in this point's ellipsoid, and the other way round."""
    A = np.linalg.inv(L)
    back = np.swapaxes(frames, 1, 2)
    mine = ((x @ np.swapaxes(A, 1, 2)) ** 2).sum(axis=2)
    theirs = (((A @ back)[near] @ (x @ back)[..., None])[..., 0] ** 2).sum(axis=2)
    return np.stack([mine, theirs], axis=2)


def _logarithm(L: np.ndarray) -> np.ndarray:  # (N, 3, 3) -> (N, 6)
    x, y, z = (np.log(L[:, i, i]) for i in range(3))
    return np.stack([x, L[:, 1, 0], y, L[:, 2, 0], L[:, 2, 1], z], axis=1)


def _softmax(values: np.ndarray) -> np.ndarray:  # (N, k, heads), over k
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _relu(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 0.0)
