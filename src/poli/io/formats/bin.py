"""Headerless record files: KITTI Velodyne scans (x y z intensity), nuScenes scans (x y z intensity ring), and custom layouts.

A .bin file does not identify its layout; `bin_layouts` infers it from the values. On writing, missing fields become zeros, and
coordinates are rounded to float32; rounding by more than a millimeter is an error.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from poli.errors import FormatError
from poli.io.atomic import atomic_path, write_array
from poli.scan import Scan

# --- Infer the number of columns of a headerless float32 file from its values.
#
# With the wrong number of columns, every column contains the same mixture of x, y, z and intensity. With the right number, the
# columns differ: heights spread less than distances, intensities are non-negative, rings are integers. The right number is the one
# for which the columns differ most from the pooled values. This does not depend on units or on the order of the points.

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
    what = f"does not look like x y z intensity (KITTI) but like {others}"
    raise FormatError(f"{path}: {what}; convert it to .npy or .pcd, or pass format={nearest!r} to read it that way")


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


LAYOUT = np.dtype([(name, "<f4") for name in ("x", "y", "z", "intensity")])  # records of KITTI
_TOLERANCE = 1e-3  # meters; largest rounding error of a coordinate in float32
_FARTHEST = 1e7  # meters; larger values are not coordinates


def _read(path: Path, names: tuple[str, ...]) -> Scan:
    records = read_packed(path, np.dtype([(name, "<f4") for name in ("x", "y", "z", *names)]))
    values = records.view("<f4").reshape(-1, 3 + len(names))
    return Scan(values[:, :3], {name: values[:, 3 + i] for i, name in enumerate(names)})


def _write(path: Path, scan: Scan, names: tuple[str, ...]) -> None:
    held = ", ".join(names)
    for name, column in scan.fields.items():
        if name not in names or column.ndim != 1:
            raise FormatError(f"{path}: stores {held} only, not '{name}'; use .pcd or .npz, or drop it (poli convert --drop)")
        wide = column.astype(np.float64)
        if not np.array_equal(wide.astype(np.float32).astype(np.float64), wide, equal_nan=True):
            raise FormatError(f"{path}: field '{name}' ({column.dtype}) is not exact in float32; round it, or use .pcd or .npz")
    if not len(scan):
        raise FormatError(f"{path}: a scan without points would be an empty file, indistinguishable from a truncated one; use .npz")
    values = np.zeros((len(scan), 3 + len(names)), "<f4")
    values[:, :3] = scan.points
    for i, name in enumerate(names):
        values[:, 3 + i] = scan.fields.get(name, 0.0)
    finite = np.isfinite(scan.points)
    moved = np.abs(values[:, :3][finite] - scan.points[finite]).max(initial=0.0)
    if moved > _TOLERANCE:
        raise FormatError(f"{path}: float32 would move a point by {moved:.3g} m; subtract an offset first, or use .npz")
    with atomic_path(path) as temporary:
        write_array(temporary, values)


read_kitti_bin, write_kitti_bin = partial(_read, names=("intensity",)), partial(_write, names=("intensity",))
read_nuscenes_bin, write_nuscenes_bin = partial(_read, names=("intensity", "ring")), partial(_write, names=("intensity", "ring"))


def read_packed(path: Path, layout: np.dtype) -> np.ndarray:  # (N,) records
    """Read a file that consists of whole records. An empty file yields no records."""
    size, columns = path.stat().st_size, " ".join(layout.names or ())
    if size % layout.itemsize:
        what = f"{size} bytes are not a multiple of {layout.itemsize} ({columns})"
        raise FormatError(f"{path}: {what}; the file is truncated or has another layout")
    records = np.fromfile(path, layout)
    if len(records):
        # The file has no header to check. Bytes of another layout, read as floats, soon exceed any plausible coordinate.
        points = np.stack([records[axis] for axis in "xyz"], axis=1)
        strange = (np.abs(np.nan_to_num(points, nan=0.0)) > _FARTHEST).any(axis=1).mean()
        if strange > 0.01:
            raise FormatError(f"{path}: {strange:.0%} of the points are farther than {_FARTHEST:.0e} m; the data is not {columns}")
    return records
