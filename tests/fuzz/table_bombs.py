"""Hostile JSON, TOML, models, checkpoints, and messages in memory."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from safetensors.numpy import save

import poli
from poli.estimation.architecture import Architecture
from poli.estimation.model import read_model

from .damage import join_safetensors, split_safetensors
from .models import _model, _open_run
from .point_bombs import MANY, MOST, Bomb

_LISTS = b"[" * 100_000 + b"]" * 100_000
_SMALL = Architecture((8, 8), (8, 8), (8, 8), head=8, reach=12, attention=8)


def _dataset(path: Path) -> object:
    folder = path.parent / "dataset"
    folder.mkdir()
    (folder / "dataset.json").write_bytes(path.read_bytes())
    return poli.dataset("poli", folder)


def _config(path: Path) -> object:
    from poli.train.config import read_config

    return read_config(path)


def _with(metadata: dict[str, str], tensors: dict[str, Any] | None = None) -> bytes:
    """A valid model except for these entries."""
    header, rest = split_safetensors(_model(_SMALL, np.random.default_rng(0)))
    header["__metadata__"] |= metadata
    return join_safetensors(header | (tensors or {}), rest)


def _architecture(**changes: Any) -> bytes:
    header, _ = split_safetensors(_model(_SMALL, np.random.default_rng(0)))
    return _with({"architecture": json.dumps(json.loads(header["__metadata__"]["architecture"]) | changes)})


def _estimated(path: Path) -> object:
    from poli.estimation.ordered_cloud import Viewpoint

    return read_model(path).estimate(
        np.random.default_rng(0).normal(size=(100, 3)), Viewpoint(np.zeros(3), np.array([0.0, 0.0, 1.0]))
    )


def _checkpoint(path: Path) -> object:
    folder = path.parent / "training"
    folder.mkdir()
    (folder / "checkpoint.safetensors").write_bytes(path.read_bytes())
    return _open_run(folder)


def _saved(metadata: dict[str, str]) -> bytes:
    return save({"network.a": np.zeros(3, np.float32)}, {"format": "poli checkpoint 1", **metadata})


def _message(fields: list[dict], **numbers: int):
    """Read a message made in memory; the file is ignored."""
    told = {"height": 1, "width": 10, "point_step": 16, "row_step": 160, "is_bigendian": False, "data": bytes(160)} | numbers

    def read(_: Path) -> object:
        return poli.read(SimpleNamespace(**told, fields=[SimpleNamespace(**field) for field in fields]))

    return read


_XYZ = [{"name": axis, "offset": 4 * i, "datatype": 7, "count": 1} for i, axis in enumerate("xyz")]
_EXTRA = {"name": "a", "offset": 12, "datatype": 7, "count": 1}

BOMBS: dict[str, Bomb] = {
    "lists dataset.json": (lambda: _LISTS, _dataset),
    "dots.toml": (lambda: b"a." * 500_000 + b"a = 1\n", _config),
    "rounds.safetensors": (lambda: _architecture(rounds=10**9), read_model),
    "levels.safetensors": (lambda: _architecture(neighbors=[8] * 10**5, edge=[8] * 10**5, scalars=[8] * 10**5), read_model),
    "calibration.safetensors": (lambda: _with({"calibration": "1e300"}), _estimated),
    "header.safetensors": (lambda: (2**63).to_bytes(8, "little") + b"{}", read_model),
    "shape.safetensors": (lambda: _with({}, {"odd": {"dtype": "F32", "shape": [MOST, 4], "data_offsets": [0, 16]}}), read_model),
    "state checkpoint": (lambda: _saved({"state": _LISTS.decode(), "config": "{}"}), _checkpoint),
    "count message": (lambda: b"", _message([*_XYZ, _EXTRA | {"count": MANY}])),
    "huge message": (lambda: b"", _message(_XYZ, width=MANY, height=MANY)),
    "no step message": (lambda: b"", _message([], width=MANY, height=MANY, point_step=0, row_step=0)),
    "shared message": (
        lambda: b"",
        _message([_EXTRA | {"name": f"a{i}", "offset": 0, "count": 1000} for i in range(2_000)], width=1000, point_step=4000,
                 row_step=4_000_000, data=bytes(4_000_000)),  # type: ignore[arg-type]
    ),
}  # fmt: skip
