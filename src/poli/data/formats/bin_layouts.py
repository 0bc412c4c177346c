"""Infer the number of columns of a headerless float32 file from its values.

With the wrong number of columns, every column contains the same mixture of x, y, z and intensity. With the right number, the
columns differ: heights spread less than distances, intensities are non-negative, rings are integers. The right number is the one
for which the columns differ most from the pooled values. This does not depend on units or on the order of the points.
"""

from pathlib import Path

import numpy as np

from poli.errors import FormatError

_COLUMNS = (4, 3, 5, 6, 7)  # the likely ones first; data with 3 columns scores as high with 6, so 3 precedes 6
_BLOCK = 840  # values; a multiple of each of _COLUMNS, so that blocks contain whole rows
_BLOCKS = 12  # blocks, spread over the file
_LEAST = 960  # values; fewer are not conclusive
_PLAIN = 0.2  # least difference: scans reach 0.4 or more with the right number of columns, and less than 0.1 by chance
_CLEARLY = 2.0  # times the difference under four columns (KITTI)
_TIE = 0.8
_MOST_RINGS = 255


def bin_layout(path: Path) -> str:
    """Return "kitti" (x y z intensity) or "nuscenes" (x y z intensity ring), depending on the values.

    In doubt the answer is "kitti": another layout is reported only if the file clearly has a different number of columns.
    """
    size = path.stat().st_size
    columns = _column_count(path, size // 4) if size % 4 == 0 else 4
    if columns == 4:
        return "kitti"
    if columns == 5 and _has_rings(path):
        return "nuscenes"
    others = "x y z only" if columns == 3 else f"{columns} columns of float32"
    nearest = "nuscenes" if columns == 5 else "kitti"
    raise FormatError(
        f"{path}: does not look like x y z intensity (KITTI) but like {others}",
        argument="format", value=nearest,
        remedy="convert it to .npy or .pcd, or pass {argument} to read it that way",
    )  # fmt: skip


def _column_count(path: Path, values: int) -> int:
    if values < _LEAST:
        return 4
    sample = _sample(path, values)
    differ = {count: _difference(sample, count) for count in _COLUMNS if values % count == 0}
    if not differ:
        return 4  # read_packed reports the wrong size
    most = max(differ.values())
    if most < max(_PLAIN, _CLEARLY * differ.get(4, 0.0)):
        return 4
    return next(count for count, difference in differ.items() if difference >= _TIE * most)


def _sample(path: Path, values: int) -> np.ndarray:  # -> (S,)
    """Return blocks of values from all over the file; each starts at a row boundary for any number of columns."""
    if values <= _BLOCK * _BLOCKS:
        return np.fromfile(path, "<f4")
    starts = np.linspace(0, values // _BLOCK - 1, _BLOCKS).astype(int) * _BLOCK
    return np.concatenate([np.fromfile(path, "<f4", _BLOCK, offset=4 * int(start)) for start in starts])


def _difference(sample: np.ndarray, columns: int) -> float:
    """Return the largest Kolmogorov-Smirnov distance between the values of a column and all values."""
    values = np.where(np.isfinite(sample), sample, np.inf)
    table = np.sort(values[: len(values) // columns * columns].reshape(-1, columns), axis=0)
    together = np.sort(values)
    below = [np.searchsorted(column, together, side="right") / len(column) for column in table.T]
    all_below = np.searchsorted(together, together, side="right") / len(together)
    return max(float(np.abs(share - all_below).max()) for share in below)


def _has_rings(path: Path) -> bool:
    rings = _sample(path, path.stat().st_size // 4).reshape(-1, 5)[:, 4]
    return bool(((rings >= 0) & (rings <= _MOST_RINGS) & (rings == np.floor(rings))).all())
