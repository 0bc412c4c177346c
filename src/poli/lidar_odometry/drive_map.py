"""The map of a whole drive, written to a PLY file.

The odometer's own map covers the surroundings of the sensor only. This one holds all scans, in limited memory (`cell_averages`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, get_args

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.files import PLY_COMMENTS, PLY_DTYPE, ply_records
from poli.errors import FormatError, InputError, PoliError
from poli.io.atomic import writing
from poli.io.ply import write_ply_parts
from poli.lidar_odometry.cell_averages import CellAverages
from poli.lidar_odometry.odometer import Odometer
from poli.lidar_odometry.step import Status
from poli.options import real_number
from poli.scan import Scan, ScanLike

MapKind = Literal["points", "ellipsoids"]
_FINER = 4.0  # voxels of the odometry are this many times as large as those of the points
_FINEST = 0.05  # meters: returns and poses are accurate to a few centimeters
_UPPER = np.triu_indices(3)


@dataclass(frozen=True)
class MapFile:
    """A map that was written."""

    path: Path
    kind: MapKind
    voxel: float  # meters
    count: int  # points or ellipsoids


class DriveMap:
    """Collects the scans of an odometer and writes them as one map, in the frame of the first scan.

    `add` each scan after the odometer. Leaving the `with` block writes the file, also after an error: then it holds the scans so
    far. Nothing is written if there are none. Scans whose pose was only predicted are left out.

        with DriveMap("map.ply", odometer) as drive_map:
            for scan in scans:
                odometer.add(scan)
                drive_map.add(scan)
    """

    def __init__(self, path: str | os.PathLike[str], odometer: Odometer, kind: MapKind = "points", voxel: float = 0.0) -> None:
        """`points`: the average of the returns in each voxel, with their intensity if the first scan has one. `ellipsoids`: the
        average of the odometer's ellipsoids in each voxel. `voxel` is in meters; 0: a quarter of the odometry's voxel for points,
        but at least 5 cm, and the cell of the odometer's map for ellipsoids."""
        self.path, self._odometer, self._kind = Path(path), odometer, kind
        if kind not in get_args(MapKind):
            raise InputError(f"kind is {kind!r}; expected one of {', '.join(get_args(MapKind))}")
        if self.path.suffix.lower() != ".ply":
            raise FormatError(f"{self.path}: a map is written as .ply; give a name that ends in .ply")
        self.voxel = real_number(voxel, "voxel", "a number of meters of at least 0")
        self._cells: CellAverages | None = None
        self._fields: tuple[str, ...] = ()
        self._first: Scan | None = None  # until its motion is known
        self.written: MapFile | None = None

    def add(self, scan: ScanLike) -> None:
        """Add the scan that the odometer has just processed."""
        step = self._odometer.steps[-1]
        if step.status is Status.PREDICTED:
            return
        with writing(self.path):
            if self._kind == "ellipsoids":
                assert self._odometer.field is not None
                self._add_field(self._odometer.field.transform(step.T_world_scan), step.T_world_scan[:3, 3])
            elif step.status is Status.FIRST:
                self._first = Scan.of(scan)
            else:
                self._add_first()
                self._add_points(Scan.of(scan), step.T_world_scan)

    @property
    def on_disk(self) -> int:
        """Cells that have been moved from memory to temporary files so far."""
        return 0 if self._cells is None else self._cells.moved

    def close(self) -> None:
        """Write the file, after the last scan. Further calls do nothing."""
        try:
            with writing(self.path):
                self._add_first()
                if self._cells is None:
                    return
                dtype, comments = PLY_DTYPE, PLY_COMMENTS
                if self._kind == "points":
                    dtype = np.dtype([(name, "f4") for name in ("x", "y", "z", *self._fields)])
                    comments = (f"poli map: mean of the returns in each voxel of {self.voxel:g} m",)
                count = write_ply_parts(self.path, dtype, self._records(self._cells, dtype), comments)
                self.written = MapFile(self.path, self._kind, self.voxel, count)
        finally:
            if self._cells is not None:
                self._cells.close()
                self._cells = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except PoliError:
            if error is None:  # otherwise the first error matters more
                raise

    def _add_first(self) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            self._add_points(first, self._odometer.steps[0].T_world_scan)

    def _add_points(self, scan: Scan, T_world_scan: np.ndarray) -> None:
        still = self._odometer.still(scan)
        if self._cells is None:
            values = still.fields.get("intensity")
            self._fields = ("intensity",) if values is not None and values.ndim == 1 else ()
            self.voxel = self.voxel or max(self._odometer.voxel / _FINER, _FINEST)
            self._cells = CellAverages(self.voxel, 3 + len(self._fields), self.path.parent)
        rows = np.full((len(still), 3 + len(self._fields)), np.nan)  # NaN: a later scan has no intensity
        rows[:, :3] = still.points.astype(np.float64) @ T_world_scan[:3, :3].T + T_world_scan[:3, 3]
        for i, name in enumerate(self._fields):
            if name in still.fields and still.fields[name].ndim == 1:
                rows[:, 3 + i] = still.fields[name]
        self._cells.add(rows, np.ones(len(rows)))

    def _add_field(self, field: Ellipsoids, sensor: np.ndarray) -> None:  # (3,)
        if self._cells is None:
            own = self._odometer.map
            self.voxel = self.voxel or (self._odometer.voxel if own is None else own.cell)
            self._cells = CellAverages(self.voxel, 12, self.path.parent)
        upper = field.covariances[:, *_UPPER]  # (N, 6)
        rows = np.concatenate([field.means, upper, np.broadcast_to(sensor, (len(field), 3))], axis=1)
        # As in the odometer's map: close views, which are finer, count more.
        self._cells.add(rows, 1.0 / np.maximum(np.trace(field.covariances, axis1=1, axis2=2), 1e-12))

    def _records(self, cells: CellAverages, dtype: np.dtype) -> Iterator[np.ndarray]:
        for rows in cells.averages():
            if self._kind == "points":
                records = np.empty(len(rows), dtype)
                for i, name in enumerate(dtype.names or ()):
                    records[name] = rows[:, i]
                yield records
                continue
            covariances = np.empty((len(rows), 3, 3))
            covariances[:, *_UPPER] = rows[:, 3:9]
            covariances[:, _UPPER[1], _UPPER[0]] = rows[:, 3:9]
            yield ply_records(Ellipsoids.trusted(rows[:, :3].copy(), covariances, rows[:, 9:].copy()))
