"""How many columns a headerless file of float32 has, by its values.

With a wrong number of columns, every column is the same mixture of all: x, y, z and intensity in turn. With the right one, columns
differ: heights spread less than distances, intensities are not negative, rings are whole numbers. So that number is right
under which the columns differ most from all values together, whatever their units and the order of the points.
"""

from pathlib import Path

import numpy as np

from poli.errors import FormatError

_COLUMNS = (4, 3, 5, 6, 7)  # the likely ones first; 6 of a kind are as different as their 3, and 3 is what they are
_BLOCK = 840  # values: a multiple of every number of columns, so that in each block every mixture is even
_BLOCKS = 12  # spread over the file
_LEAST = 960  # values: fewer say little
_PLAIN = 0.2  # of the values: scans have 0.4 and more with the right number of columns, and below 0.1 by chance
_CLEARLY = 2.0  # times more than as KITTI's
_TIE = 0.8
_MOST_RINGS = 255


def bin_layout(path: Path) -> str:
    """ "kitti" (x y z intensity) or "nuscenes" (x y z intensity ring), whichever the values fit.

    A file that may be KITTI's is: only what clearly has another number of columns is anything else.
    """
    size = path.stat().st_size
    columns = _column_count(path, size // 4) if size % 4 == 0 else 4
    if columns == 4:
        return "kitti"
    if columns == 5 and _has_rings(path):
        return "nuscenes"
    others = "x y z alone" if columns == 3 else f"{columns} columns of float32"
    nearest = "nuscenes" if columns == 5 else "kitti"
    raise FormatError(
        f"{path}: does not look like x y z intensity (KITTI) but like {others}",
        argument="format", value=nearest,
        remedy="make a .npy or .pcd file of it, or pass {argument} if it is that all the same",
    )  # fmt: skip


def _column_count(path: Path, values: int) -> int:
    if values < _LEAST:
        return 4
    sample = _sample(path, values)
    differ = {count: _difference(sample, count) for count in _COLUMNS if values % count == 0}
    if not differ:
        return 4  # whose reader says what is wrong with the size
    most = max(differ.values())
    if most < max(_PLAIN, _CLEARLY * differ.get(4, 0.0)):
        return 4
    return next(count for count, difference in differ.items() if difference >= _TIE * most)


def _sample(path: Path, values: int) -> np.ndarray:  # -> (S,)
    """Blocks from all over the file; every one begins with a row, however many columns there are."""
    if values <= _BLOCK * _BLOCKS:
        return np.fromfile(path, "<f4")
    starts = np.linspace(0, values // _BLOCK - 1, _BLOCKS).astype(int) * _BLOCK
    return np.concatenate([np.fromfile(path, "<f4", _BLOCK, offset=4 * int(start)) for start in starts])


def _difference(sample: np.ndarray, columns: int) -> float:
    """The largest share by which a column's distribution is off that of all values: the distance of Kolmogorov and Smirnov."""
    values = np.where(np.isfinite(sample), sample, np.inf)
    table = np.sort(values[: len(values) // columns * columns].reshape(-1, columns), axis=0)
    together = np.sort(values)
    below = [np.searchsorted(column, together, side="right") / len(column) for column in table.T]
    all_below = np.searchsorted(together, together, side="right") / len(together)
    return max(float(np.abs(share - all_below).max()) for share in below)


def _has_rings(path: Path) -> bool:
    rings = _sample(path, path.stat().st_size // 4).reshape(-1, 5)[:, 4]
    return bool(((rings >= 0) & (rings <= _MOST_RINGS) & (rings == np.floor(rings))).all())
