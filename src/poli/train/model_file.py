"""Write a trained network to the file that inference reads, and read it back."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors.torch import save

from poli.errors import InputError, PoliError
from poli.estimation.architecture import Architecture
from poli.estimation.model import MODEL_FORMAT, Model
from poli.io.atomic import atomic_path
from poli.train.config import TrainConfig
from poli.train.losses import LossConfig
from poli.train.network import Network, TrainingModel, new_network
from poli.train.object_pairs import PairBatch
from poli.train.pointnet2 import PointNet
from poli.train.validate import validate

_LENGTH = struct.Struct("<Q")  # of the header, before it
_MEDIAN = 2.366  # of a chi-squared variable with three degrees of freedom, whose mean is 3
_ALIGNED = 8  # bytes: where the tensors begin
# Parts of a network that start over if any of their settings differs from those of the initial model.
_LAST = {"size": ("size", "motion"), "bend": ("curvature", "curvature_wide")}


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file whose bytes depend only on its content.

    The library writes the metadata in an order that differs between processes; here it is sorted by name.
    """
    whole = save({name: t.detach().contiguous().clone() for name, t in tensors.items()}, dict(metadata))
    begin = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
    header = json.loads(whole[_LENGTH.size : begin])
    entries = {name: header[name] for name in sorted(header, key=lambda name: header[name].get("data_offsets", [-1, -1]))}
    entries["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(_LENGTH.pack(len(text)) + text)
        file.write(memoryview(whole)[begin:])


def calibrate(model: TrainingModel, held_out: Iterable[PairBatch]) -> float:
    """Return the factor for L that calibrates it on held-out pairs of equal density, or one without pairs.

    It brings the median of d'(2C)^-1 d to that of a Gaussian. The mean depends on the heavy tail that matches at edges have."""
    result = validate(model, held_out)
    if result is None:
        return 1.0
    ratio = result.nees_median / _MEDIAN
    if not 0.0 < ratio < math.inf:
        raise PoliError(f"the trained network cannot be calibrated: its median of d'(2C)^-1 d on held-out surfaces is {ratio}")
    return math.sqrt(ratio)


def export_model(path: Path, network: Network | PointNet, config: TrainConfig, steps: int, calibration: float) -> None:
    """Write a trained network and all other inputs of inference."""
    write_model(path, config.name, network, calibration, {"steps": str(steps), "config": config.to_json()})


def write_model(path: Path, name: str, network: Network | PointNet, calibration: float, more: Mapping[str, str]) -> None:
    """Write the weights under the names of `tensor_shapes`, and the architecture, the calibration and more as metadata."""
    state = network.state_dict()
    tensors = {part: state[_state_name(network, part)].cpu().float() for part in network.architecture.tensor_shapes()}
    architecture = json.dumps(asdict(network.architecture))
    about = {"format": MODEL_FORMAT, "name": name, "architecture": architecture, "calibration": repr(calibration)}
    write_tensors(path, tensors, {**about, **more})


def _state_name(network: Network | PointNet, part: str) -> str:
    """Return the name in torch of a tensor in the file."""
    layer, _, kind = part.rpartition(".")
    return part if isinstance(network, PointNet) else f"maps.{layer.replace('.', '_')}.{kind}"


def import_model(model: Model, network: Network | PointNet) -> None:
    """Copy the weights of a model into a network of the same architecture.

    The sizes and the curvature, which are learned last, from the rest, may differ in width or in their inputs. The sizes, or the
    curvature, start over then."""
    ours, theirs = network.architecture, model.architecture
    over = []
    if isinstance(ours, Architecture) and isinstance(theirs, Architecture):
        over = [part for part, names in _LAST.items() if any(getattr(ours, name) != getattr(theirs, name) for name in names)]
        theirs = replace(theirs, **{name: getattr(ours, name) for part in over for name in _LAST[part]})
    if theirs != ours:
        raise InputError(f"initial: model '{model.name}' has another architecture than this configuration; make them equal")
    tensors = network.state_dict()
    for part in ours.tensor_shapes():
        if part.split(".")[0] not in over:
            tensors[_state_name(network, part)] = torch.from_numpy(model.weights[part].copy())
    network.load_state_dict(tensors)


def calibrated(model: Model, loss: LossConfig) -> TrainingModel:
    """Return a model with its calibration, to be scored by `validate`."""
    scored = TrainingModel(model.architecture, loss)
    import_model(model, scored.network)
    if isinstance(scored.network, PointNet):
        scored.network.calibration = model.calibration
        return scored
    with torch.no_grad():  # variances are multiplied by the exponential of this output
        scored.network.maps["size_out"].bias.add_(2.0 * math.log(model.calibration))
    return scored


def network_of(model: Model) -> Network | PointNet:
    """Return the network of a model, on the CPU, for inference. The caller's random state is preserved.

    Only the paper's network includes the calibration, because its output is L."""
    with torch.random.fork_rng(devices=[]):
        network = new_network(model.architecture)
    import_model(model, network)
    if isinstance(network, PointNet):
        network.calibration = model.calibration
    return network.eval().requires_grad_(False)
