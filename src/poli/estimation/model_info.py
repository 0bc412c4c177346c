"""A summary of a shipped model; its card has the details.

Each fact is stored once: architecture and training data in the file of weights, results and license in NAME.toml next to it. Hash
and size are computed from the file.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from hashlib import sha256

from poli.errors import FormatError
from poli.estimation.inference import load_model, model_card, shipped_file
from poli.estimation.input_checks import FEWEST, Seen

_KEYS = ("results", "data_license")  # in the .toml


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a shipped model."""

    name: str
    about: str  # the first paragraph of the card
    sensors: tuple[str, ...]  # in the training data; `any` stands for random tables of beams; empty for objects
    voxels: tuple[float, float] | None  # meters, the smallest and the largest
    raw: bool  # whether it was also trained on scans that were not voxelized
    spacing: tuple[float, float] | None  # range of point spacing in meters that it works for; None: any
    least_points: int
    calibration: float
    results: str
    data_license: str
    weights: int
    multiply_adds: int  # per point
    bytes: int
    sha256: str  # of the file of weights


def facts_of(name: str) -> ModelInfo:
    """Return the facts about a shipped model."""
    card, model = model_card(name), load_model(name)
    content = shipped_file(name, ".safetensors").read_bytes()
    values = _stated(name)
    scans = model.training.get("scans") or {}
    seen = Seen.by(model)
    return ModelInfo(
        name=name,
        about=" ".join(card.split("\n\n")[1].split()),
        sensors=tuple(scans.get("sensors", ())),
        voxels=seen.voxels,
        raw=scans.get("raw_share", 0.0) > 0.0,
        spacing=seen.spacing,
        least_points=FEWEST,
        calibration=model.calibration,
        results=values["results"],
        data_license=values["data_license"],
        weights=sum(tensor.size for tensor in model.weights.values()),
        multiply_adds=round(model.architecture.multiply_adds()),
        bytes=len(content),
        sha256=sha256(content).hexdigest(),
    )


def _stated(name: str) -> dict[str, str]:
    path = shipped_file(name, ".toml")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{path}: {error}") from None
    if sorted(values) != sorted(_KEYS) or not all(isinstance(value, str) and value for value in values.values()):
        raise FormatError(f"{path}: expected {' and '.join(_KEYS)} as nonempty strings, and nothing else")
    return values
