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

from poli.errors import FormatError, PoliError
from poli.estimation.architecture import Architecture
from poli.estimation.grouping import Grouping, Interpolation, Level, group

MODEL_FORMAT = "poli model 1"


@dataclass(frozen=True)
class Model:
    name: str
    architecture: Architecture
    calibration: float  # L is multiplied by it, so that d'(2C)^-1 d is 3 on average
    weights: dict[str, np.ndarray]  # "down0.edge.weight" (out, in) and "down0.edge.bias" (out,), float32
    metadata: dict[str, str]

    def covariances(self, points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 3, 3)
        grouping = group(points, self.architecture)
        factor = grouping.levels[0].frames.astype(np.float64) @ self.factors(grouping)
        return factor @ np.swapaxes(factor, 1, 2)

    def factors(self, grouping: Grouping) -> np.ndarray:  # (N, 3, 3)
        """L of each point in its own frame, in units of the cloud."""
        a = self.architecture
        scalars: list[np.ndarray] = []  # by level: (M, scalars)
        vectors: list[np.ndarray] = []  # (M, vectors, 3), in the common frame
        for number, level in enumerate(grouping.levels):
            node = self._first(level) if number == 0 else self._down(number, level, scalars[-1], vectors[-1])
            self._keep(scalars, vectors, node, level.frames, a.scalars[number])
        coarse, coarse_vectors = scalars[-1], vectors[-1]
        for number in reversed(range(a.levels - 1)):
            frames = grouping.levels[number].frames
            read = self._read(number, grouping.interpolations[number], frames, coarse, coarse_vectors)
            own = _turn(vectors[number][:, None], frames)[:, 0]
            node = self._map(f"up{number}.node", np.concatenate([read, scalars[number], own], axis=1))
            up_scalars: list[np.ndarray] = []
            up_vectors: list[np.ndarray] = []
            self._keep(up_scalars, up_vectors, node, frames, a.scalars[number])
            coarse, coarse_vectors = up_scalars[0], up_vectors[0]
        six = self._map("head.out", _relu(self._map("head.hidden", coarse)))
        return lower_triangular(six.astype(np.float64), a.floor) * (self.calibration * grouping.spacing[:, None, None])

    def _first(self, level: Level) -> np.ndarray:  # -> (N, scalars + 3 vectors)
        x = level.offsets
        place = np.concatenate([x, x * x, x * np.roll(x, 1, axis=2)], axis=2)
        if self.architecture.log_scale:
            size = np.log(level.radius).astype(np.float32)
            place = np.concatenate([place, np.broadcast_to(size[:, None, None], (*place.shape[:2], 1))], axis=2)
        return self._map("down0.node", self._pooled("down0", self._map("down0.place", place)))

    def _down(self, number: int, level: Level, scalars: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        name = f"down{number}"
        place = np.concatenate([level.offsets, _turn(vectors[level.neighbours], level.frames)], axis=2)
        hidden = self._map(f"{name}.place", place) + self._map(f"{name}.feature", scalars)[level.neighbours]
        own = _turn(vectors[level.centres][:, None], level.frames)[:, 0]
        return self._map(f"{name}.node", np.concatenate([self._pooled(name, hidden), scalars[level.centres], own], axis=1))

    def _pooled(self, name: str, hidden: np.ndarray) -> np.ndarray:  # (M, k, edge) -> (M, 2 edge)
        hidden = _relu(self._map(f"{name}.edge", _relu(hidden)))
        return np.concatenate([hidden.max(axis=1), hidden.mean(axis=1)], axis=1)

    def _read(
        self, number: int, how: Interpolation, frames: np.ndarray, scalars: np.ndarray, vectors: np.ndarray
    ) -> np.ndarray:  # -> (M, scalars)
        place = np.concatenate([how.offsets, _turn(vectors[how.neighbours], frames)], axis=2)
        hidden = self._map(f"up{number}.place", place) + self._map(f"up{number}.feature", scalars)[how.neighbours]
        return (_relu(hidden) * how.weights[:, :, None]).sum(axis=1)

    def _map(self, name: str, values: np.ndarray) -> np.ndarray:
        flat = values.reshape(-1, values.shape[-1]) @ self.weights[f"{name}.weight"].T
        flat += self.weights[f"{name}.bias"]
        return flat.reshape(*values.shape[:-1], -1)

    @staticmethod
    def _keep(scalars: list, vectors: list, node: np.ndarray, frames: np.ndarray, width: int) -> None:
        scalars.append(_relu(node[:, :width]))
        vectors.append(node[:, width:].reshape(len(node), -1, 3) @ np.swapaxes(frames, 1, 2))


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
    """Six numbers to L with a positive diagonal: (xx, yx, yy, zx, zy, zz)."""
    L = np.zeros((len(six), 3, 3))
    L[:, [1, 2, 2], [0, 0, 1]] = six[:, [1, 3, 4]]
    L[:, [0, 1, 2], [0, 1, 2]] = 0.5 * np.logaddexp(0.0, six[:, [0, 2, 5]]) + floor
    return L


def _turn(vectors: np.ndarray, frames: np.ndarray) -> np.ndarray:  # (M, k, V, 3), (M, 3, 3) -> (M, k, 3 V)
    m, k, v, _ = vectors.shape
    return (vectors.reshape(m, k * v, 3) @ frames).reshape(m, k, 3 * v)


def _relu(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 0.0)
