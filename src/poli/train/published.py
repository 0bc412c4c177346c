"""Read the checkpoints that the paper's authors published, and write them as model files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import torch

from poli.errors import FormatError, InputError
from poli.estimation.pointnet2 import OBJECTS, PointNet2
from poli.io.atomic import atomic_path, check_new_file, refuse_overwriting
from poli.train.model_file import write_model
from poli.train.pointnet2 import PointNet

_STATE = "model_state_dict"
_LISTED = 5  # names in an error message
_CARD = """# {name}

The paper's network with weights of its authors, for {kind}: read from `{file}` (sha256 {digest}; {progress}).

## Architecture
PointNet++ of {count:,} weights (`architecture.kind = "pointnet2"`). {input}

## Calibration
L is multiplied by {calibration:g}. As published, covariances are some 100 times too large. With 1, they are those of the authors'
code, whose sampling "within 0.05 sigma" relies on it; with 0.1 (`--calibration 0.1`), they are about the size of the residuals.

## License
That of the authors' checkpoint and of the data it was trained on.
"""
_INPUT = {
    "scans": "Input: coordinates in meters in the frame of the sensor, divided by 100. Output: square meters.",
    "objects": "Input: the cloud without its mean, divided by its largest radius. Output: in the square of the cloud's unit.",
}


@dataclass(frozen=True)
class Imported:
    """What was read from a checkpoint."""

    kind: str  # scans or objects
    weights: int
    model: Path
    card: Path


def import_checkpoint(path: Path, out: Path, calibration: float = 1.0) -> Imported:
    """Write a checkpoint of the authors as the model file `out`, and its card beside it. No code in the file is executed.

    `calibration` is a factor for L."""
    card = out.with_suffix(".md")
    if out.suffix != ".safetensors":
        raise FormatError(f"{out}: the output is a model file; its name must end in .safetensors")
    if not 1e-6 < calibration < 1e6:
        raise InputError(f"calibration is {calibration}; expected a number between 1e-6 and 1e6")
    for written in (out, card):
        refuse_overwriting(written, path)
        check_new_file(written)
    saved = _load(path)
    kind, architecture, tensors = _recognized(path, saved[_STATE])
    network = PointNet(architecture)
    network.load_state_dict(tensors)
    name, digest = path.stem, sha256(path.read_bytes()).hexdigest()
    write_model(out, name, network, calibration, {"source": f"{path.name}, sha256 {digest}"})
    count = sum(t.numel() for t in network.parameters())
    progress = ", ".join(f"{what} {saved[what]}" for what in ("epoch", "step") if isinstance(saved.get(what), int))
    text = _CARD.format(
        name=name, kind=kind, file=path.name, digest=digest[:12], progress=progress or "no progress noted", count=count,
        input=_INPUT[kind], calibration=calibration,
    )  # fmt: skip
    with atomic_path(card) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Imported(kind, count, out, card)


def _load(path: Path) -> dict:
    if not path.is_file():
        raise FormatError(f"{path}: no such file")
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)  # tensors and plain numbers, no other objects
    except MemoryError:
        raise
    except Exception as error:  # from pickle, zipfile and torch
        reason = str(error).partition("\n")[0][:200]
        raise FormatError(f"{path}: not a checkpoint of torch, or one with more than tensors and numbers ({reason})") from None
    if not isinstance(saved, dict) or not isinstance(saved.get(_STATE), dict):
        raise FormatError(f"{path}: not a checkpoint of the paper's network: it has no table '{_STATE}'")
    return saved


def _recognized(path: Path, state: dict) -> tuple[str, PointNet2, dict[str, torch.Tensor]]:
    """Return the kind of a checkpoint, its architecture, and its tensors as the network has them."""
    found = {name: t for name, t in state.items() if not str(name).endswith("num_batches_tracked")}
    scans = any(str(name).startswith("sa4.") for name in found)
    kind = "scans" if scans else "objects"
    architecture = replace(PointNet2() if scans else OBJECTS, floor=0.0)
    shapes = architecture.tensor_shapes()
    tensors = {name: _matrix(found[name]) for name in shapes if isinstance(found.get(name), torch.Tensor)}
    problems = (
        ("missing", [name for name in shapes if name not in tensors]),
        ("unexpected", [str(name) for name in found if name not in shapes]),
        ("of another shape", [f"{name} {tuple(t.shape)}" for name, t in tensors.items() if t.shape != shapes[name]]),
        ("not finite", [name for name, t in tensors.items() if not torch.isfinite(t).all()]),
    )
    told = [f"{what}: {', '.join(names[:_LISTED])}{' and others' * (len(names) > _LISTED)}" for what, names in problems if names]
    if told:
        raise FormatError(f"{path}: not a checkpoint of the paper's network for {kind}; {'; '.join(told)}")
    return kind, architecture, tensors


def _matrix(tensor: torch.Tensor) -> torch.Tensor:
    """Return the weights of a convolution over single points, (out, in, 1) or (out, in, 1, 1), as a matrix."""
    return tensor.float().reshape([size for axis, size in enumerate(tensor.shape) if axis < 2 or size > 1])
