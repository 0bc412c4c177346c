"""Everything needed to resume a run exactly, in one safetensors file that is replaced atomically.

It contains no generator state: the batch of step i is drawn from a generator seeded by (seed, process, i).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

from poli.errors import FormatError
from poli.io.atomic import atomic_path, writing
from poli.io.tables import parse_json, read_log
from poli.train.config import TrainConfig
from poli.train.model_file import write_tensors


class CsvLog:
    """A CSV file with one row per logged step. When a run is resumed, rows after its checkpoint are dropped."""

    def __init__(self, path: Path, columns: Sequence[str], steps_done: int) -> None:
        self.path, self.columns = path, list(columns)
        before = read_log(path) if path.exists() else []  # raises, rather than overwrite a file that is not a log
        kept = [row for row in before if int(row["step"]) <= steps_done] if steps_done else []
        with atomic_path(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(kept)

    def append(self, row: Mapping[str, float]) -> None:
        """Write one row."""
        text = {name: value if isinstance(value, int) else f"{value:.6g}" for name, value in row.items()}
        with writing(self.path), self.path.open("a", newline="") as file:
            csv.DictWriter(file, self.columns).writerow(text)


_FORMAT = "poli checkpoint 1"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # AdamW's state per parameter


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run."""

    config: TrainConfig
    step: int  # steps done
    tensors: dict[str, torch.Tensor]  # names start with "network.", "average." or "optimizer."
    skipped: int  # problems without a certificate so far
    world: int  # processes


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically."""
    metadata = {
        "format": _FORMAT,
        "config": checkpoint.config.to_json(),
        "state": json.dumps({"step": checkpoint.step, "skipped": checkpoint.skipped, "world": checkpoint.world}),
    }
    write_tensors(path, checkpoint.tensors, metadata)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raise FormatError if it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise FormatError(f"{path}: not a checkpoint of `poli train`")
            state = parse_json(metadata["state"], f"{path}: its state")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        config = TrainConfig.from_json(metadata["config"])
        step, skipped, world = (_count(state, name) for name in ("step", "skipped", "world"))
        if step > config.steps:
            raise ValueError(f"{step} of {config.steps} steps are done")
        if not all(bool(torch.isfinite(t).all()) for t in tensors.values()):
            raise ValueError("it contains non-finite numbers")
        return Checkpoint(config, step, tensors, skipped, world)
    except MemoryError:
        raise
    except Exception as error:  # from safetensors, torch (unknown types) and this package
        if isinstance(error, FormatError) and str(path) in str(error):
            raise
        raise FormatError(f"{path}: a damaged checkpoint ({str(error)[:200]}); remove it to start over") from None


def _count(state: object, name: str) -> int:
    value = state.get(name, 1 if name == "world" else None) if isinstance(state, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"its '{name}' is {value!r}")
    return value


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return Adam's moments and step counts, by parameter number."""
    state = optimizer.state_dict()["state"]
    return {f"optimizer.{i}.{name}": torch.as_tensor(value) for i, entry in state.items() for name, value in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """Restore Adam's state. Raise ValueError if number or shapes of the parameters differ."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".")
            row = int(number)
            if (
                name not in _MOMENTS
                or not 0 <= row < len(parameters)
                or value.shape != (() if name == "step" else parameters[row].shape)
            ):
                raise ValueError(f"'{key}' of shape {tuple(value.shape)} belongs to no parameter")
            state.setdefault(row, {})[name] = value
    if any(set(entry) != set(_MOMENTS) for entry in state.values()):
        raise ValueError("optimizer moments are missing")
    whole = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def part(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the tensors whose names start with this prefix, without it."""
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}
