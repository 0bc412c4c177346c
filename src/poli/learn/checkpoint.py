"""Everything a run needs to go on exactly where it stood, in one safetensors file that is replaced atomically.

There is no generator state in it: the batch of step i is drawn from a generator seeded by (seed, process, i).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from poli.errors import FormatError, InputError, MissingExtra
from poli.learn.config import TrainConfig
from poli.learn.tensor_file import write_tensors

try:
    import torch
    from safetensors import SafetensorError, safe_open
except ImportError:
    raise MissingExtra("poli.learn", "train") from None

_FORMAT = "poli checkpoint 1"


@dataclass(frozen=True)
class Checkpoint:
    config: TrainConfig
    step: int  # steps done
    tensors: dict[str, torch.Tensor]  # by "network.", "average.", "noise.", "optimizer."
    skipped: int  # problems without a certificate so far
    world: int  # processes


def save(path: Path, checkpoint: Checkpoint) -> None:
    metadata = {
        "format": _FORMAT,
        "config": checkpoint.config.to_json(),
        "state": json.dumps({"step": checkpoint.step, "skipped": checkpoint.skipped, "world": checkpoint.world}),
    }
    write_tensors(path, checkpoint.tensors, metadata)


def load(path: Path) -> Checkpoint:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise FormatError(f"{path}: not a checkpoint of `poli train`")
            state = json.loads(metadata["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            config = TrainConfig.from_json(metadata["config"])
            return Checkpoint(config, state["step"], tensors, state["skipped"], state.get("world", 1))
    except (SafetensorError, KeyError, InputError, json.JSONDecodeError) as error:
        raise FormatError(f"{path}: a damaged checkpoint ({error}); remove it to start anew") from None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Adam's moments and step counts, by the number of the parameter."""
    state = optimizer.state_dict()["state"]
    return {f"optimizer.{i}.{name}": torch.as_tensor(value) for i, entry in state.items() for name, value in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".")
            state.setdefault(int(number), {})[name] = value
    whole = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def part(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}
