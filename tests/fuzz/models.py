"""Models, checkpoints and training configurations."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from poli.estimation.architecture import Architecture
from poli.estimation.model import MODEL_FORMAT, read_model
from poli.estimation.ordered_cloud import Viewpoint

from .damage import (
    BINARY,
    FLOATS,
    TEXT,
    Rng,
    Target,
    Tree,
    changed,
    changed_metadata,
    check_finite,
    damage_files,
    damaged,
    join_safetensors,
    only_file,
    pick,
    split_safetensors,
)

_ARCHITECTURES = (
    Architecture((8, 8), (8, 8), (8, 8), head=8, reach=12, attention=8),
    Architecture((8, 8, 8), (8, 8, 8), (8, 8, 8), head=8, reach=12, wide=(4, 4), attention=8, frames="sensor",
                 sensor=True, log_scale=True, size=8),
)  # fmt: skip
_CONFIGS = Path(__file__).parents[2] / "configs"


def _model(architecture: Architecture, rng: Rng, largest: float = 0.3) -> bytes:
    tensors = {}
    for name, (inputs, outputs) in architecture.linear_shapes().items():
        tensors[f"{name}.weight"] = rng.uniform(-largest, largest, (outputs, inputs)).astype(np.float32)
        tensors[f"{name}.bias"] = rng.uniform(-largest, largest, outputs).astype(np.float32)
    config = {"scans": {"voxels": [0.2, 2.0]}, "name": "tiny"}
    metadata = {"format": MODEL_FORMAT, "name": "tiny", "architecture": json.dumps(asdict(architecture)), "calibration": "1.0"}
    return save(tensors, {**metadata, "config": json.dumps(config)})


def _models(_folder: Path) -> list[Tree]:
    return [{"model.safetensors": _model(architecture, np.random.default_rng(5))} for architecture in _ARCHITECTURES]


def _damage_model(tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    kind = rng.random()
    if kind < 0.3:
        return damage_files(tree, rng, others)
    header, rest = split_safetensors(tree["model.safetensors"])
    if kind < 0.45:
        return {"model.safetensors": join_safetensors(changed(header, rng), rest)}
    if kind < 0.6:
        return {"model.safetensors": join_safetensors(changed_metadata(header, pick(rng, ("architecture", "config")), rng), rest)}
    return {"model.safetensors": _odd_weights(header, rest, rng)}


def _odd_weights(header: dict, rest: bytes, rng: Rng) -> bytes:
    """Finite but absurd numbers."""
    numbers = np.frombuffer(rest, "<f4").copy()
    some = rng.integers(len(numbers), size=int(rng.integers(1, 40))) if rng.random() < 0.7 else slice(None)
    finite = [value for value in FLOATS if abs(value) < 3.5e38]
    if rng.random() < 0.5:
        numbers[some] = np.float32(pick(rng, finite))
    else:
        with np.errstate(over="ignore"):
            numbers[some] *= np.float32(pick(rng, (1e3, 1e10, 1e20, 1e30, -1e38, 1e-30)))
    if rng.random() < 0.3:
        odd = pick(rng, ("0", "-1", "nan", "inf", "1e-300", "1e300", "x", "1e400", "1e150"))
        header = {**header, "__metadata__": {**header["__metadata__"], "calibration": odd}}
    return join_safetensors(header, numbers.tobytes())


@cache
def _cloud() -> np.ndarray:
    return np.random.default_rng(6).normal(0.0, 3.0, (90, 3))


def _read_model(folder: Path) -> object:
    model = read_model(only_file(folder))
    found = model.estimate(_cloud(), Viewpoint(np.zeros(3), np.array([0.0, 0.0, 1.0]))).covariances
    check_finite("covariances", found)
    return found


# --- trainings


_TINY = {
    "name": "tiny", "seed": 3, "data": {"procedural": 2, "resolution": 24, "validation_procedural": 1},
    "pairs": {"points": [64, 128], "clouds": 2, "partners": 2}, "loss": {"kind": "ttqc"},
    "architecture": {"neighbors": [8, 8], "edge": [8, 8], "scalars": [8, 8], "head": 8, "reach": 12},
    "shapes": {"steps": 9}, "sizes": {"steps": 1},
    "schedule": {"warmup": 2, "log_every": 1, "validate_every": 6, "checkpoint_every": 2},
}  # fmt: skip


@cache
def _config():
    from poli.train.config import TrainConfig, build

    return build(TrainConfig, _TINY, "")


def _open_run(folder: Path):
    import torch

    from poli.train.trainer import Listener, Processes, Run

    return Run(_config(), folder, Listener(), False, Processes(0, 1, torch.device("cpu")), Path())


def _checkpoints(folder: Path) -> list[Tree]:
    import torch

    run = _open_run(folder)
    for parameter in run.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    run.optimizer.step()
    run.steps_done = 4
    run._save()
    log = "step,loss\n" + "".join(f"{i},0.5\n" for i in range(1, 7))
    return [{"checkpoint.safetensors": (folder / "checkpoint.safetensors").read_bytes(), "log.csv": log.encode()}]


def _damage_checkpoint(tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    kind = rng.random()
    if kind < 0.15:
        return {**tree, "log.csv": damaged(tree["log.csv"], rng, b"", TEXT)}
    if kind < 0.4:
        return {**tree, "checkpoint.safetensors": damaged(tree["checkpoint.safetensors"], rng, b"", BINARY)}
    header, rest = split_safetensors(tree["checkpoint.safetensors"])
    header = changed_metadata(header, pick(rng, ("state", "config")), rng) if kind < 0.8 else changed(header, rng)
    return {**tree, "checkpoint.safetensors": join_safetensors(header, rest)}


def _read_checkpoint(folder: Path) -> object:
    run = _open_run(folder)
    check_finite("weights", *(parameter.detach().numpy() for parameter in run.model.parameters()))
    return run


def _configs(_folder: Path) -> list[Tree]:
    return [{"config.toml": path.read_bytes()} for path in sorted(_CONFIGS.glob("*.toml"))]


def _read_config(folder: Path) -> object:
    from poli.train.config import TrainConfig, read_config

    config = read_config(only_file(folder))
    if TrainConfig.from_json(config.to_json()) != config:
        raise AssertionError("the configuration does not come back")
    return config


TARGETS = (
    Target("model", _models, _read_model, _damage_model, share=4),
    Target("checkpoint", _checkpoints, _read_checkpoint, _damage_checkpoint, share=3),
    Target("configuration", _configs, _read_config, damage_files, named=True, share=3),
)
