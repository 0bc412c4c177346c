"""Inputs and outputs of an exported model: names, shapes and meanings, stored in the file as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from poli.estimation.architecture import Architecture
from poli.estimation.model import Model
from poli.kdtree.neighborhoods import CELL

ONNX_FORMAT = "poli onnx 2"
_MANY = 1 << 40  # points: a cloud large enough that every level has enough points to search


@dataclass(frozen=True)
class Argument:
    """An input or output of the exported model."""

    name: str
    shape: tuple[str | int, ...]  # letters are variable: N points, M1 of the next level, and so on
    type: str
    meaning: str


OUTPUT = Argument("covariances", ("N", 3, 3), "float32", "square meters, calibrated, in the frame of the points")


def contract(model: Model) -> dict[str, Any]:
    """Return everything that a caller needs to know, as a JSON-compatible dictionary."""
    counts = neighbor_counts(model.architecture)
    return {
        "format": ONNX_FORMAT,
        "model": model.name,
        "calibration": model.calibration,  # for information: the covariances already include it
        "cell": CELL,
        "near": counts,
        "least_points": max(k * CELL**level for level, k in enumerate(counts)) + 1,
        "origin": "sensor" if model.architecture.sensor else "centroid",
        "inputs": [asdict(argument) for argument in inputs(model.architecture)],
        "outputs": [asdict(OUTPUT)],
    }


def neighbor_counts(architecture: Architecture) -> list[int]:
    """Return, by level, how many nearest others every point needs."""
    return [k for k, _ in architecture.searches(_MANY)]


def inputs(architecture: Architecture) -> list[Argument]:
    """Return the inputs of an exported model, in order."""
    counts = neighbor_counts(architecture)
    origin = "the sensor" if architecture.sensor else "their centroid"
    arguments = [Argument("points", ("N", 3), "float32", f"meters, relative to {origin}: subtract it in double precision")]
    if architecture.sensor:
        arguments.append(Argument("up", (3,), "float32", "unit vector, upwards, in the frame of the points"))
    arguments.append(Argument("near0", ("N", counts[0]), "int64", "the nearest other points of every point, nearest first"))
    for level in range(1, architecture.levels):
        here, below = f"M{level}", f"M{level - 1}" if level > 1 else "N"
        kept = f"which points of level {level - 1} level {level} keeps: one in {CELL}, spread evenly"
        lead = f"for every point of level {level - 1}, the point of level {level} that leads its cell"
        near = f"the nearest other points within level {level}, nearest first"
        arguments += [
            Argument(f"centers{level}", (here,), "int64", kept),
            Argument(f"lead{level}", (below,), "int64", lead),
            Argument(f"near{level}", (here, counts[level]), "int64", near),
        ]
    return arguments
