"""Headerless record files: KITTI Velodyne scans (x y z intensity), nuScenes scans (x y z intensity ring), and custom layouts.

A .bin file does not identify its layout; `bin_layouts` infers it from the values. On writing, missing fields become zeros, and
coordinates are rounded to float32; rounding by more than a millimeter is an error.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from poli.errors import FormatError
from poli.files.atomic import atomic_path
from poli.files.records import write_array
from poli.scan import Scan

LAYOUT = np.dtype([(name, "<f4") for name in ("x", "y", "z", "intensity")])  # records of KITTI
_TOLERANCE = 1e-3  # meters; largest rounding error of a coordinate in float32
_FARTHEST = 1e7  # meters; larger values are not coordinates


def read_kitti_bin(path: Path) -> Scan:
    return _read(path, ("intensity",))


def read_nuscenes_bin(path: Path) -> Scan:
    return _read(path, ("intensity", "ring"))


def write_kitti_bin(path: Path, scan: Scan) -> None:
    _write(path, scan, ("intensity",))


def write_nuscenes_bin(path: Path, scan: Scan) -> None:
    _write(path, scan, ("intensity", "ring"))


def _read(path: Path, names: tuple[str, ...]) -> Scan:
    records = read_packed(path, np.dtype([(name, "<f4") for name in ("x", "y", "z", *names)]))
    values = records.view("<f4").reshape(-1, 3 + len(names))
    return Scan(values[:, :3], {name: values[:, 3 + i] for i, name in enumerate(names)})


def _write(path: Path, scan: Scan, names: tuple[str, ...]) -> None:
    held = ", ".join(names)
    for name, column in scan.fields.items():
        if name not in names or column.ndim != 1:
            raise FormatError(
                f"{path}: this format stores {held} only, not '{name}'; .pcd and .npz store all fields",
                argument="scan.keep(...)", remedy="use one of those, or drop the field with {argument}",
            )  # fmt: skip
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


def read_packed(path: Path, layout: np.dtype) -> np.ndarray:  # (N,) records
    """Read a file that consists of whole records. An empty file yields no records."""
    size = path.stat().st_size
    if size % layout.itemsize:
        raise FormatError(
            f"{path}: {size} bytes are not a multiple of {layout.itemsize} ({describe(layout)}); "
            "the file is truncated or has another layout"
        )
    records = np.fromfile(path, layout)
    if len(records):
        # The file has no header to check. Bytes of another layout, read as floats, soon exceed any plausible coordinate.
        points = np.stack([records[axis] for axis in "xyz"], axis=1)
        strange = (np.abs(np.nan_to_num(points, nan=0.0)) > _FARTHEST).any(axis=1).mean()
        if strange > 0.01:
            raise FormatError(
                f"{path}: {strange:.0%} of the points are farther than {_FARTHEST:.0e} m; the data is not {describe(layout)}"
            )
    return records


def describe(layout: np.dtype) -> str:
    """Describe a layout: `x y z intensity as float32`, or `name:type` for each column if the types differ."""
    names = layout.names or ()
    types = {layout[name].name for name in names}
    return f"{' '.join(names)} as {types.pop()}" if len(types) == 1 else " ".join(f"{n}:{layout[n].str[1:]}" for n in names)
