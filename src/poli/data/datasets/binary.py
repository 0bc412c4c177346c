"""Headerless scan files as record arrays."""

from pathlib import Path

import numpy as np

from poli.errors import FormatError

_FARTHEST = 1e7  # metres: beyond it the bytes are not coordinates


def read_packed(path: Path, layout: np.dtype) -> np.ndarray:  # (N,) records
    """All records of the file, which must be a whole number of them. No bytes are no records: an empty scan."""
    size = path.stat().st_size
    if size % layout.itemsize:
        raise FormatError(
            f"{path}: {size} bytes are not a multiple of {layout.itemsize} ({describe(layout)}); "
            "the file is cut off or of another layout"
        )
    records = np.fromfile(path, layout)
    if len(records):
        # Nothing in such a file says what it holds. Bytes of another layout, read as floats, soon exceed any coordinate.
        points = np.stack([records[axis] for axis in "xyz"], axis=1)
        strange = (np.abs(np.nan_to_num(points, nan=0.0)) > _FARTHEST).any(axis=1).mean()
        if strange > 0.01:
            raise FormatError(
                f"{path}: {strange:.0%} of the points lie beyond {_FARTHEST:.0e} m; these bytes are not {describe(layout)}"
            )
    return records


def describe(layout: np.dtype) -> str:
    return " ".join(f"{name}:{layout[name].str[1:]}" for name in layout.names or ())
