"""Checkpoints with the names and shapes of the authors' (random weights), a small network of that kind, and a run of seconds."""

import itertools
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

# Inputs and outputs of the layers of each block, as the paper's authors have them.
_FINE = {"sa1": (6, 32, 32, 64), "sa2": (67, 64, 64, 128), "sa3": (131, 128, 128, 256)}
_BACK = {"fp3": (384, 256, 256), "fp2": (320, 256, 128), "fp1": (128, 128, 128, 128)}
BLOCKS = {"scans": {**_FINE, "sa4": (259, 256, 256, 512), "fp4": (768, 256, 256), **_BACK}, "objects": {**_FINE, **_BACK}}


def state_of(kind: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """The `model_state_dict` of a checkpoint."""
    rng, state = np.random.default_rng(seed), {}

    def add(layer: str, norm: str | None, shape: tuple[int, ...]) -> None:
        count = shape[0]
        state[f"{layer}.weight"] = rng.standard_normal(shape) * np.sqrt(2.0 / shape[1])
        state[f"{layer}.bias"] = 0.1 * rng.standard_normal(count)
        if norm:
            state[f"{norm}.weight"] = rng.uniform(0.5, 1.5, count) * np.where(rng.random(count) < 0.1, -1.0, 1.0)
            state[f"{norm}.bias"] = 0.2 * rng.standard_normal(count)
            state[f"{norm}.running_mean"] = 0.3 * rng.standard_normal(count)
            state[f"{norm}.running_var"] = rng.uniform(0.5, 2.0, count)
            state[f"{norm}.num_batches_tracked"] = np.array(7)

    for block, widths in BLOCKS[kind].items():
        for i, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
            add(f"{block}.mlp_convs.{i}", f"{block}.mlp_bns.{i}", (outputs, inputs, *([1, 1] if block.startswith("sa") else [1])))
    add("conv1", "bn1", (128, 128, 1))
    add("final_conv_diag", None, (3, 128, 1))
    add("final_conv_triang", None, (3, 128, 1))
    return {name: torch.tensor(v, dtype=torch.int64 if v.ndim == 0 else torch.float32) for name, v in state.items()}


def checkpoint(folder: Path, kind: str, name: str = "", **changed: object) -> Path:
    """Write a checkpoint."""
    path = folder / (name or f"vlp_{kind}_0.5m.pth")
    moments = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 1e-4, "params": [0]}]}
    whole = {"epoch": 4, "step": 99, "valid_step": 9, "model_state_dict": state_of(kind), "optimizer_state_dict": moments}
    torch.save({**whole, **changed}, path)
    return path


TINY = """
name = "tiny"
seed = 1
[data]
procedural = 2
resolution = 24
validation_procedural = 1
[pairs]
points = [64, 96]
[architecture]
kind = "pointnet2"
centroids = [48, 24]
radii = [0.3, 0.6]
nearest = [8, 16]
channels = [[8, 8], [8, 16]]
propagated = [[16, 16], [16]]
head = 16
scale = 0
[schedule]
warmup = 2
log_every = 1
validate_every = 20
checkpoint_every = 10
[shapes]
steps = 36
learning_rate = 3e-3
average = 0.0
[sizes]
steps = 4
average = 0.0
"""
