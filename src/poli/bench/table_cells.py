"""Numbers as the cells of a table; one that there is not is a dash."""

from __future__ import annotations

import math
from collections.abc import Mapping

NONE = "-"


def bold_lowest(values: Mapping[str, float], cells: Mapping[str, str]) -> dict[str, str]:
    finite = [value for value in values.values() if math.isfinite(value)]
    return {name: f"**{cell}**" if finite and values[name] == min(finite) else cell for name, cell in cells.items()}


def centimetres(metres: float) -> str:
    return NONE if math.isnan(metres) else f"{100 * metres:.2f}" if metres < 0.1 else f"{100 * metres:.1f}"


def degrees(value: float) -> str:
    return NONE if math.isnan(value) else f"{value:.3f}°"


def percent(value: float, *, signed: bool = False, digits: int = 1) -> str:
    return NONE if math.isnan(value) else f"{value:{'+' if signed else ''}.{digits}f} %"


def milliseconds(value: float, unit: float) -> str:
    """And, in brackets, how many times `unit` it is."""
    if math.isnan(value):
        return NONE
    return f"{value:.1f}" if math.isnan(unit) else f"{value:.1f} ({value / unit:.2f})"
