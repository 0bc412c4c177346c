"""From a trained network to the file that inference reads, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from poli.errors import InputError, MissingExtra, PoliError
from poli.estimation.model import MODEL_FORMAT, Model
from poli.learn.config import TrainConfig
from poli.learn.model import TrainingModel
from poli.learn.network import Network
from poli.learn.pairs import PairBatch
from poli.learn.tensor_file import write_tensors
from poli.learn.validate import validate

try:
    import torch
except ImportError:
    raise MissingExtra("poli.learn", "train") from None


def calibrate(model: TrainingModel, held_out: Iterable[PairBatch]) -> float:
    """The factor for L that makes the mean of d'(2C)^-1 d three on held-out pairs of equal density; one, if there are none."""
    result = validate(model, held_out)
    if result is None:
        return 1.0
    nees = result.nees
    if not 0.0 < nees < math.inf:
        raise PoliError(f"the trained network cannot be calibrated: its mean of d'(2C)^-1 d on held-out surfaces is {nees}")
    return float((nees / 3.0) ** 0.5)


def export_model(path: Path, network: Network, config: TrainConfig, steps: int, calibration: float) -> None:
    """Weights by the names of `Architecture.linear_shapes`; everything inference needs to know is in the metadata."""
    tensors = {}
    for name in config.architecture.linear_shapes():
        layer = network.maps[name.replace(".", "_")]
        for kind in ("weight", "bias"):
            tensors[f"{name}.{kind}"] = getattr(layer, kind).detach().cpu().float().contiguous()
    metadata = {
        "format": MODEL_FORMAT,
        "name": config.name,
        "architecture": json.dumps(asdict(config.architecture)),
        "calibration": repr(calibration),
        "steps": str(steps),
        "config": config.to_json(),
    }
    write_tensors(path, tensors, metadata)


def import_model(model: Model, network: Network) -> None:
    """Give a network the weights of a model of the same architecture."""
    if model.architecture != network.architecture:
        raise InputError(f"initial: model '{model.name}' has another architecture than this configuration; give it the same")
    tensors = {}
    for name in model.architecture.linear_shapes():
        for kind in ("weight", "bias"):
            tensors[f"maps.{name.replace('.', '_')}.{kind}"] = torch.from_numpy(model.weights[f"{name}.{kind}"].copy())
    network.load_state_dict(tensors)
