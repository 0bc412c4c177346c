"""Export a trained model as one ONNX file, for runtimes in other languages: from points and neighbor indices to covariances.

The file is traced from the reference network, which remains the only definition. Thinning and neighbor search are left to the
caller, since a graph cannot contain a tree; all arithmetic is in the graph. docs/export.md describes the inputs and outputs, and
the file contains the description.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from poli.errors import FormatError, MissingExtra
from poli.estimation.architecture import Architecture
from poli.estimation.model import Model
from poli.io.atomic import atomic_path
from poli.kdtree.neighborhoods import CELL
from poli.train.grouping import Hierarchy, group_tensors
from poli.train.model_file import network_of
from poli.train.tensors3 import eigh3

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
    architecture = model.own_architecture("poli export")
    counts = neighbor_counts(architecture)
    return {
        "format": ONNX_FORMAT,
        "model": model.name,
        "calibration": model.calibration,  # for information: the covariances already include it
        "cell": CELL,
        "near": counts,
        "least_points": max(k * CELL**level for level, k in enumerate(counts)) + 1,
        "origin": "sensor" if architecture.sensor else "centroid",
        "inputs": [asdict(argument) for argument in inputs(architecture)],
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


try:
    import onnx
    import onnxscript  # noqa: F401  (torch.onnx needs it, and its own error is less clear)
    import torch
except ImportError:
    raise MissingExtra("poli.train.export", "export") from None

_OPSET = 18


def export_onnx(model: Model, path: str | os.PathLike[str]) -> None:
    """Write the model for clouds of any size; the contract is in the file's metadata, as JSON under `contract`."""
    path = Path(path)
    if path.suffix.lower() != ".onnx":
        raise FormatError(f"{path}: the output is an ONNX file; its name must end in .onnx")
    with atomic_path(path) as temporary:
        proto = _traced(model)
        onnx.helper.set_model_props(proto, {"contract": json.dumps(contract(model))})
        onnx.checker.check_model(proto, full_check=True)
        temporary.write_bytes(proto.SerializeToString())


class _Graph(torch.nn.Module):
    """The exported graph, from the inputs of the file to its output: the computation of `Model.covariances`."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.network: Any = network_of(model.at_motion(None))
        self.architecture, self.calibration = model.own_architecture("poli export"), model.calibration
        self.names = [argument.name for argument in inputs(self.architecture)]

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:  # (N, 3, 3)
        given = dict(zip(self.names, tensors, strict=True))
        architecture = self.architecture
        near, centers, leads = (
            tuple(given[f"{name}{level}"] for level in range(first, architecture.levels))
            for name, first in (("near", 0), ("centers", 1), ("lead", 1))
        )
        batch = group_tensors(given["points"], given.get("up"), Hierarchy(near, centers, leads), architecture)
        scalars = self.network.features(batch)
        L, hidden = self.network.ellipsoids(batch, scalars)
        variances, axes = eigh3(L @ L.transpose(1, 2))
        scales = self.calibration * batch.spacing[:, None] * self.network.scales(batch, scalars, hidden, variances)
        factor = batch.frames[0] @ axes.to(scales) * scales[:, None]
        return factor @ factor.transpose(1, 2)


def _traced(model: Model) -> onnx.ModelProto:
    architecture = model.own_architecture("poli export")
    arguments = inputs(architecture)
    # Any sizes work for a trace, as long as no two are equal by chance.
    sizes = {f"M{level}" if level else "N": 400 // CELL**level + level for level in range(architecture.levels)}
    free = {letter: torch.export.Dim(letter, min=2) for letter in sizes}
    examples, dynamic = [], []
    for argument in arguments:
        shape = [sizes[n] if isinstance(n, str) else n for n in argument.shape]
        examples.append(torch.zeros(shape, dtype=getattr(torch, argument.type)))
        dynamic.append({axis: free[n] for axis, n in enumerate(argument.shape) if isinstance(n, str)})
    shapes = {"tensors": tuple(dynamic)}
    with _quiet():
        # Exported first: otherwise, on a problem, torch.onnx silently writes a file for clouds of one size instead of raising.
        graph = torch.export.export(_Graph(model).eval(), tuple(examples), dynamic_shapes=shapes, strict=False)
        program = torch.onnx.export(
            graph,
            input_names=[argument.name for argument in arguments],
            output_names=[OUTPUT.name],
            dynamic_shapes=shapes,  # again, for the names of the dimensions
            opset_version=_OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    for node in proto.graph.node:  # remove source locations: they contain folders of this machine
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    return proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's messages; errors are raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
