"""Headerless float32 files: KITTI's velodyne scans (x y z intensity), and nuScenes' (x y z intensity ring)."""

from pathlib import Path

import numpy as np

from poli.errors import FormatError
from poli.files.atomic import atomic_path
from poli.scan import Scan

_FARTHEST = 1e7  # metres: beyond it the bytes are not coordinates
_TOLERANCE = 1e-3  # metres that float32 may move a coordinate


def read_kitti_bin(path: Path) -> Scan:
    return _read(path, ("intensity",))


def read_nuscenes_bin(path: Path) -> Scan:
    return _read(path, ("intensity", "ring"))


def write_kitti_bin(path: Path, scan: Scan) -> None:
    _write(path, scan, ("intensity",))


def write_nuscenes_bin(path: Path, scan: Scan) -> None:
    _write(path, scan, ("intensity", "ring"))


def _read(path: Path, names: tuple[str, ...]) -> Scan:
    size, row = path.stat().st_size, 4 * (3 + len(names))
    if size % row:
        raise FormatError(f"{path}: {size} bytes are not a multiple of {row} (x y z {' '.join(names)} as float32); cut off, or another layout")
    values = np.fromfile(path, "<f4").reshape(-1, 3 + len(names))
    points = values[:, :3]
    with np.errstate(invalid="ignore"):
        strange = ~(np.abs(points) < _FARTHEST).all(axis=1) & ~np.isnan(points).any(axis=1)
    if strange.mean() > 0.01:
        raise FormatError(f"{path}: {int(strange.sum())} of {len(points)} points lie beyond {_FARTHEST:.0e} m; these bytes are not float32 x y z {' '.join(names)}")
    return Scan(points, {name: values[:, 3 + i] for i, name in enumerate(names)})


def _write(path: Path, scan: Scan, names: tuple[str, ...]) -> None:
    lost = [n for n in scan.fields if n not in names]
    if lost:
        raise FormatError(f"{path}: this format holds {', '.join(names)} only, so '{lost[0]}' would be lost; use .pcd or .npz, or scan.keep(...)")
    values = np.zeros((len(scan), 3 + len(names)), "<f4")
    values[:, :3] = scan.points
    for i, name in enumerate(names):
        if name in scan.fields:
            column = scan.fields[name]
            values[:, 3 + i] = column
            if not np.array_equal(values[:, 3 + i].astype(column.dtype), column, equal_nan=column.dtype.kind == "f") and column.dtype.kind != "f":
                raise FormatError(f"{path}: field '{name}' does not fit float32; use .pcd or .npz")
    with np.errstate(invalid="ignore"):
        moved = np.abs(values[:, :3] - scan.points)
    if (moved > _TOLERANCE).any():
        raise FormatError(f"{path}: float32 would move a point by {np.nanmax(moved):.3g} m; subtract an offset first, or use .npz")
    with atomic_path(path) as temporary:
        values.tofile(temporary)
