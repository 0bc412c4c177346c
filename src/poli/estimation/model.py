"""A trained network, torch-free: read its file of weights and run it on points."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from poli.errors import DegenerateError, FormatError, InputError, MissingExtra
from poli.estimation.architecture import MOTION_INPUTS, AnyArchitecture, Architecture, motion_inputs
from poli.estimation.ordered_cloud import Viewpoint, check_places, distinct
from poli.estimation.pointnet2 import PointNet2
from poli.estimation.runtime.forward import Estimate, Layers, forward
from poli.io.tables import parse_json

MODEL_FORMAT = "poli model 2"
_UNKNOWN = np.full(1, np.nan)  # spacing: no range of densities is known for the paper's network, so it is not compared


@dataclass(frozen=True)
class Model:
    """A trained network: architecture, weights and calibration."""

    name: str
    architecture: AnyArchitecture
    calibration: float  # factor for L, found on held-out pairs when it was trained
    weights: dict[str, np.ndarray]  # "down0.edge.weight" (out, in) and "down0.edge.bias" (out,), float32
    metadata: dict[str, str]
    training: dict[str, Any] = field(default_factory=dict)  # the configuration of its last training; empty if unknown

    def own_architecture(self, feature: str) -> Architecture:
        """Return the architecture, or raise InputError if it is the paper's, which `feature` does not support."""
        if isinstance(self.architecture, PointNet2):
            problem = f"{feature}: the model '{self.name[:80]}' has the architecture pointnet2, which it does not support"
            raise InputError(f"{problem}; choose another model, such as lidar")
        return self.architecture

    def at_motion(self, motion: float | None) -> Model:
        """Return the model for scans taken this many meters apart (None: unknown), without inputs that are the same for all
        points."""
        a = self.architecture
        if isinstance(a, PointNet2) or not a.motion:
            self._check_motion(motion)
            return self
        weight = np.ascontiguousarray(self.weights["size.hidden.weight"][:, :-MOTION_INPUTS])
        changed = {"size.hidden.weight": weight, "size.hidden.bias": self._size_bias(motion)}
        return replace(self, architecture=replace(a, motion=False), weights={**self.weights, **changed})

    @cached_property
    def layers(self) -> Layers:
        """The weights as the kernels take them, for an unknown motion."""
        plain = self.at_motion(None)
        return Layers.of(plain.own_architecture("the runtime"), plain.weights)

    @cached_property
    def in_torch(self) -> Any:
        """The paper's network, which has no kernels: `train.pointnet2.PointNet` on the CPU."""
        try:
            from poli.train.model_file import network_of
        except MissingExtra:
            raise MissingExtra(f"the model '{self.name[:80]}' (architecture pointnet2)", "train") from None
        return network_of(self)

    def estimate(
        self, points: np.ndarray, view: Viewpoint, curvature: bool = False, motion: float | None = None
    ) -> Estimate:  # (N, 3)
        """Return calibrated covariances (matched points of two clouds of this density differ by N(0, 2 C)), the point spacing
        around each distinct place in meters, and curvature if asked for."""
        self._check_motion(motion)
        if curvature and not self.architecture.curvature:
            raise InputError(f"curvature: the model '{self.name[:80]}' does not estimate it; leave it out, or choose another model")
        if isinstance(self.architecture, PointNet2):
            check_places(points, distinct(points), self.architecture)
            return Estimate(self.in_torch.covariances(points, view.position), _UNKNOWN, None)
        layers = self.layers if motion is None else self.layers.with_size_bias(self._size_bias(motion))
        with np.errstate(over="ignore"):
            found = forward(points, layers, self.calibration, view, curvature=curvature)
        # Finite weights can still overflow, which only the output shows.
        if not np.isfinite(found.covariances.sum()) and not np.isfinite(found.covariances).all():
            raise DegenerateError(
                f"the model '{self.name[:80]}' gives ellipsoids that are not finite: its weights are damaged, or the points are "
                "far too large or too small; retrain the model, or scale the points"
            )
        return found

    def _size_bias(self, motion: float | None) -> np.ndarray:
        bias = self.weights["size.hidden.bias"]
        if motion is None:
            return bias
        return bias + self.weights["size.hidden.weight"][:, -MOTION_INPUTS:] @ motion_inputs(motion).astype(np.float32)

    def _check_motion(self, motion: float | None) -> None:
        if motion is not None and not self.architecture.motion:
            problem = f"motion is given, but the sizes of the model '{self.name[:80]}' do not depend on it"
            raise InputError(f"{problem}; leave it out, or choose the model lidar")


def read_model(path: str | os.PathLike[str]) -> Model:
    """Read a model.safetensors written by `poli train`."""
    path = Path(path)
    if not path.is_file():
        raise FormatError(f"{path}: no such model file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != MODEL_FORMAT:
                raise FormatError(f"{path}: not a model; `poli train` writes one as model.safetensors")
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        architecture = Architecture.from_dict(parse_json(metadata["architecture"], f"{path}: its architecture"))
        calibration = float(metadata["calibration"])
        name = metadata["name"]
        training = parse_json(metadata.get("config", "{}"), f"{path}: its configuration")
        if not isinstance(training, dict) or not 1e-6 < calibration < 1e6:  # training ends between 0.1 and 10
            raise FormatError(f"{path}: its configuration or calibration ({calibration}) is damaged")
    except (FormatError, MemoryError):
        raise
    except Exception as error:  # from safetensors, numpy (unknown types) and this package
        raise FormatError(f"{path}: a damaged model file ({str(error)[:200]})") from None
    for part, shape in architecture.tensor_shapes().items():
        tensor = weights.get(part)
        if tensor is None or tensor.shape != shape or tensor.dtype != np.float32 or not np.isfinite(tensor).all():
            raise FormatError(f"{path}: tensor '{part}' is missing, not finite, or not float32 of shape {shape}")
    return Model(name, architecture, calibration, weights, metadata, training)
