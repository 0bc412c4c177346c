"""Encode fields of points for the page: 16-bit steps over the range of all panels, and the robust range of their color scales."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from poli.show.panel import Panel
from poli.show.scalars import scalar_range, unit_of

UNKNOWN = 65535  # the code of NaN
_STEPS = 65534


def encode_fields(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return name, unit, range of the color scale and encoding of each field: value = start + step * code.

    Fields of small integers, such as rings, are exact; others are rounded to 1 / 131,068 of their range.
    """
    return [_field(name, [values for panel in panels for values in _values(panel, name)]) for name in _names(panels)]


def codes_of(values: np.ndarray, field: dict[str, Any]) -> np.ndarray:  # (N,) -> (N,) uint16
    known = np.isfinite(values)
    steps = (np.where(known, values, field["start"]).astype(np.float64) - field["start"]) / (field["step"] or 1.0)
    return np.where(known, np.clip(np.rint(steps), 0, _STEPS), UNKNOWN).astype("<u2")


def _names(panels: Sequence[Panel]) -> list[str]:
    found: dict[str, None] = {}  # in order of appearance
    for panel in panels:
        for part in _parts(panel):
            found.update(dict.fromkeys(part))
    return list(found)


def _parts(panel: Panel) -> Iterable[Any]:
    yield panel.scalars
    for frame in panel.frames:
        yield frame.scalars
        yield frame.field_scalars


def _values(panel: Panel, name: str) -> list[np.ndarray]:
    return [part[name] for part in _parts(panel) if name in part]


def _field(name: str, parts: list[np.ndarray]) -> dict[str, Any]:
    low, high = scalar_range(parts)
    known = [values[np.isfinite(values)].astype(np.float64) for values in parts]
    known = [values for values in known if len(values)]
    start = min((float(values.min()) for values in known), default=0.0)
    end = max((float(values.max()) for values in known), default=0.0)
    whole = all(values.dtype.kind in "biu" or (values == np.rint(values)).all() for values in known)
    step = 1.0 if whole and end - start <= _STEPS else (end - start) / _STEPS
    return {"name": name, "unit": unit_of(name), "low": low, "high": high, "whole": whole, "start": start, "step": step}
