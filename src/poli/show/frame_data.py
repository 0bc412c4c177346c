"""Encode the scans of a timeline for the page: they follow each other in one array, each with a box of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from poli.show.array_codes import encode_array, sizes_of, turns_of
from poli.show.panel import Panel
from poli.show.parts import Frame
from poli.show.scalar_data import codes_of


def encode_frames(panel: Panel, origin: np.ndarray, fields: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The scans of a timeline; `counts` are the rows of each in `points` and `ellipsoids`."""
    if not panel.frames:
        return None
    shown = [frame.field for frame in panel.frames if frame.field is not None]
    points = {"place": _encode_frame_places([frame.places for frame in panel.frames], origin)}
    ellipsoids = None
    if shown:
        ellipsoids = {
            "place": _encode_frame_places([_means(frame) for frame in panel.frames], origin),
            "turn": encode_array(np.concatenate([turns_of(field) for field in shown])),
            "size": encode_array(np.concatenate([sizes_of(field) for field in shown])),
            "normal": None,  # the first axis of `turn`
            "scalars": _frame_scalars([(len(_means(frame)), frame.field_scalars) for frame in panel.frames], fields),
            "counts": [len(_means(frame)) for frame in panel.frames],
        }
    return {
        "names": [frame.name for frame in panel.frames],
        "seconds": [frame.seconds for frame in panel.frames],
        "totals": [max(frame.total, len(frame.places)) for frame in panel.frames],
        "positions": [None if frame.position is None else (frame.position - origin).tolist() for frame in panel.frames],
        "shareWorld": panel.frames_share_world,
        "points": points
        | {
            "normal": None,
            "scalars": _frame_scalars([(len(frame.places), frame.scalars) for frame in panel.frames], fields),
            "counts": [len(frame.places) for frame in panel.frames],
        },
        "ellipsoids": ellipsoids,
    }


def _means(frame: Frame) -> np.ndarray:  # (M, 3)
    return np.empty((0, 3)) if frame.field is None else frame.field.means


def _encode_frame_places(parts: list[np.ndarray], origin: np.ndarray) -> dict[str, Any]:
    """As `_encode_places`, with a box for each part: `start` and `step` have a row for each."""
    starts, steps, codes = [], [], []
    for places in parts:
        local = places - origin
        low = local.min(axis=0) if len(local) else np.zeros(3)
        step = np.maximum(local.max(axis=0) - low, 1e-9) / 65535.0 if len(local) else np.ones(3)
        starts.append(low.tolist())
        steps.append(step.tolist())
        codes.append(np.rint((local - low) / step).astype("<u2"))
    rounding = max((max(step) for step, code in zip(steps, codes, strict=True) if len(code)), default=0.0) / 2.0
    return {"type": "uint16", "start": starts, "step": steps, "rounding": rounding, "data": encode_array(np.concatenate(codes))}


def _frame_scalars(parts: list[tuple[int, Mapping[str, np.ndarray]]], fields: list[dict[str, Any]]) -> dict[str, str]:
    """The fields of all frames; unknown in frames that lack one."""
    encoded = {}
    for field in fields:
        name = field["name"]
        if any(name in scalars for _, scalars in parts):
            columns = [codes_of(scalars.get(name, np.full(count, np.nan)), field) for count, scalars in parts]
            encoded[name] = encode_array(np.concatenate(columns))
    return encoded
