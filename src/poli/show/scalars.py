"""Fields of scans in viewers: which of them are scalars or colors, their units, and the range of a color scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from poli.errors import InputError
from poli.scan import Scan

_RANGE = 2.0, 98.0  # percentiles spanned by a color scale: a few odd values would use up most of its colors
_CHANNELS = ("red", "green", "blue")
_PACKED = ("rgb", "rgba")  # four bytes per color, as PCL stores it
# Units that a name implies. Readers convert the times of points to seconds and call them `time`; for others, files do not say.
_UNITS = {"time": "s", "gps_time": "s", "range": "m"}


def scalars_of(scan: Scan) -> dict[str, np.ndarray]:  # each (N,)
    """The fields of a scan that hold one number per point, except for colors."""
    colors = {*_PACKED, *(_CHANNELS if colors_of(scan) is not None else ())}
    return {name: values for name, values in scan.fields.items() if values.ndim == 1 and name not in colors}


def colors_of(scan: Scan) -> np.ndarray | None:  # (N, 3) in 0..1
    """The colors in a scan's fields: red, green and blue in one or two bytes each, or packed into four bytes; None without any."""
    fields = scan.fields
    if all(name in fields and fields[name].ndim == 1 for name in _CHANNELS):
        channels = np.stack([fields[name] for name in _CHANNELS], axis=1).astype(np.float64)
        if not np.isfinite(channels).all() or channels.min(initial=0.0) < 0.0:
            return None
        largest = channels.max(initial=0.0)
        whole = all(fields[name].dtype.kind in "biu" for name in _CHANNELS)
        most = 1.0 if largest <= 1.0 and not whole else 255.0 if largest <= 255.0 else 65535.0
        return channels / most if largest <= most else None
    for name in _PACKED:
        values = fields.get(name)
        if values is not None and values.ndim == 1 and values.dtype.itemsize == 4:
            bits = np.ascontiguousarray(values).view(np.uint32)
            return np.stack([bits >> 16 & 255, bits >> 8 & 255, bits & 255], axis=1) / 255.0
    return None


def unit_of(name: str) -> str:
    """The unit of a field, or nothing if its name does not imply one."""
    return _UNITS.get(name, "")


def check_scalars(scalars: Mapping[str, np.ndarray], rows: int, owner: str) -> dict[str, np.ndarray]:
    """Check that each field has one real number per row. NaN and infinity mean unknown."""
    checked = {}
    for name, values in scalars.items():
        array = np.asarray(values)
        if array.shape != (rows,) or array.dtype.kind not in "biuf":
            raise InputError(f"scalar {name!r} of {owner}: {array.dtype} of shape {array.shape}; expected {rows} numbers")
        checked[str(name)] = array
    return checked


def scalar_range(parts: Iterable[np.ndarray]) -> tuple[float, float]:
    """The robust range of a field over all parts, for its color scale: without the outer 2 % on either side."""
    known = [values[np.isfinite(values)].astype(np.float64) for values in parts]
    together = np.concatenate(known) if known else np.zeros(0)
    if not len(together):
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(together, _RANGE))
    if low == high:  # most values are equal, such as in a field of flags
        low, high = float(together.min()), float(together.max())
    return low, high
