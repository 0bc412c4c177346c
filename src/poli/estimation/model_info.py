"""What is known of a shipped model, in numbers and in a line. Its card tells it at length.

Each fact stands in one place: what a model is, and what it was trained on, in its file of weights; results and license in NAME.toml
beside it; hash and size are those of the file.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from hashlib import sha256

from poli.errors import FormatError
from poli.estimation.density import FEWEST, Seen
from poli.estimation.inference import load_model, model_card, shipped_file

_TOLD = ("results", "data_license")  # in the .toml


@dataclass(frozen=True)
class ModelInfo:
    name: str
    about: str  # the first paragraph of the card
    sensors: tuple[str, ...]  # that it was trained on; `any` stands for random tables of beams; none for objects
    voxels: tuple[float, float] | None  # meters, the least and the largest
    raw: bool  # were there scans without voxels?
    spacing: tuple[float, float] | None  # meters between points that it is good for; None: any
    least_points: int
    calibration: float
    results: str
    data_license: str
    weights: int
    multiply_adds: int  # a point
    bytes: int
    sha256: str  # of the file of weights


def facts_of(name: str) -> ModelInfo:
    card, model = model_card(name), load_model(name)
    content = shipped_file(name, ".safetensors").read_bytes()
    told = _told(name)
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
        results=told["results"],
        data_license=told["data_license"],
        weights=sum(tensor.size for tensor in model.weights.values()),
        multiply_adds=round(model.architecture.multiply_adds()),
        bytes=len(content),
        sha256=sha256(content).hexdigest(),
    )


def _told(name: str) -> dict[str, str]:
    path = shipped_file(name, ".toml")
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{path}: {error}") from None
    if sorted(told) != sorted(_TOLD) or not all(isinstance(value, str) and value for value in told.values()):
        raise FormatError(f"{path}: expected {' and '.join(_TOLD)}, a line each, and nothing else")
    return told
