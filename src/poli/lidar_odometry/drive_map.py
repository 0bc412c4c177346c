"""The map of a whole drive, written to a PLY file.

The odometer's own map covers the surroundings of the sensor only. This one holds all scans, in limited memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.files import PLY_COMMENTS, PLY_DTYPE, ply_records
from poli.errors import FormatError, InputError, PoliError
from poli.io.atomic import temporary_folder, writing
from poli.io.ply import write_ply_parts
from poli.kernel import kernel
from poli.lidar_odometry.local_map import check_extent
from poli.lidar_odometry.odometer import Odometer
from poli.lidar_odometry.step import Status
from poli.lidar_odometry.tuned import FINER, FINEST
from poli.options import real_number
from poli.scan import Scan, ScanLike
from poli.voxels import find_slot, voxel_key

MapKind = Literal["points", "ellipsoids"]
MOST_CELLS = 1 << 20  # in memory: 80 MB for points, 150 MB for ellipsoids
_FILES = 256  # each fits into memory: 50 MB of points, if the map has 250 million
_MIX = np.int64(-7046029254386353131)  # an odd number: its products spread the keys over the files
_BATCH = 1 << 16  # rows that are added or returned at once
_UPPER = np.triu_indices(3)


@dataclass(frozen=True)
class MapFile:
    """A map that was written."""

    path: Path
    kind: MapKind
    voxel: float  # meters
    count: int  # points or ellipsoids


class DriveMap(AbstractContextManager):
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
        values = still.fields.get("intensity")
        if values is not None and values.ndim > 1:
            values = None
        if self._cells is None:
            self._fields = () if values is None else ("intensity",)
            self.voxel = self.voxel or max(self._odometer.voxel / FINER, FINEST)
            self._cells = CellAverages(self.voxel, 3 + len(self._fields), self.path.parent)
        rows = np.full((len(still), 3 + len(self._fields)), np.nan)  # NaN: a later scan has no intensity
        rows[:, :3] = still.points.astype(np.float64) @ T_world_scan[:3, :3].T + T_world_scan[:3, 3]
        if self._fields and values is not None:
            rows[:, 3] = values
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


class CellAverages:
    """Weighted averages of rows of numbers, one per grid cell of `cell` meters. The first three columns of a row are its position.

    Cells are kept in a hash table. When it is full, all of it moves to files, and it begins again: a cell may be in a file several
    times, but always in the same one, chosen by a hash. At the end, the files are read one by one, and the entries of each cell
    are averaged. The result is the same as with unlimited memory, up to rounding.
    """

    def __init__(self, cell: float, columns: int, folder: Path, most_cells: int = MOST_CELLS) -> None:  # a power of 2
        """`folder` must exist when the table is full: the hidden temporary files are there until `close`."""
        self._cell, self._folder, self._most = cell, folder, most_cells
        self._entry = np.dtype([("key", "i8"), ("weight", "f8"), ("row", "f8", (columns,))])
        self._entries = np.empty(most_cells, self._entry)  # the system provides memory as it is used
        self._keys, self._slots = np.zeros(2 * most_cells, np.int64), np.full(2 * most_cells, -1, np.int32)
        self._opened = ExitStack()
        self._files: list[Path] = []
        self._count = 0
        self.moved = 0  # entries in the files

    def add(self, rows: np.ndarray, weights: np.ndarray) -> None:  # (N, columns), (N,) positive
        """Add rows to the averages of their cells."""
        check_extent(rows[:, :3], self._cell)
        rows, weights = np.ascontiguousarray(rows, np.float64), np.ascontiguousarray(weights, np.float64)
        batch = min(_BATCH, self._most)
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            if self._count + len(some) > self._most:
                self._move()
            table = (self._keys, self._slots, self._entries["key"], self._entries["weight"], self._entries["row"])
            self._count = _average(*table, self._count, some, weights[start : start + batch], self._cell)

    def averages(self) -> Iterator[np.ndarray]:  # (n, columns) each
        """Yield the average of every cell, in parts. Nothing can be added afterwards."""
        if self._files:
            self._move()
            self._entries = self._entries[:0].copy()  # frees the table
            for path in self._files:
                yield _merged(np.fromfile(path, self._entry))["row"]
            return
        order = np.argsort(self._entries["key"][: self._count])
        for start in range(0, len(order), _BATCH):
            yield self._entries["row"][order[start : start + _BATCH]]

    def close(self) -> None:
        """Remove the temporary files."""
        self._opened.close()

    def _move(self) -> None:
        """Append the table to the files, and begin again."""
        if not self._files:
            place = self._opened.enter_context(temporary_folder(self._folder))
            self._files = [place / str(number) for number in range(_FILES)]
        entries = self._entries[: self._count]
        number = (entries["key"] * _MIX >> 33) % _FILES
        order, ends = np.argsort(number, kind="stable"), np.cumsum(np.bincount(number, minlength=_FILES))
        for path, rows in zip(self._files, np.split(order, ends[:-1]), strict=True):
            with path.open("ab") as file:
                file.write(entries[rows].tobytes())
        self.moved += self._count
        self._count = 0
        self._slots[:] = -1


def _merged(entries: np.ndarray) -> np.ndarray:
    """Return one entry per cell, ordered by cell."""
    entries = entries[np.argsort(entries["key"], kind="stable")]
    starts = np.flatnonzero(np.diff(entries["key"], prepend=-1))  # keys are not negative
    if len(starts) == len(entries):
        return entries
    merged = entries[starts]
    merged["weight"] = np.add.reduceat(entries["weight"], starts)
    weighted = np.add.reduceat(entries["weight"][:, None] * entries["row"], starts, axis=0)
    merged["row"] = weighted / merged["weight"][:, None]
    return merged


@kernel
def _average(keys, slots, held, weights, rows, count, new_rows, new_weights, cell):
    for i in range(len(new_rows)):
        key = voxel_key(new_rows[i], cell)
        slot = find_slot(keys, slots, key)
        row = slots[slot]
        if row < 0:
            row = count
            count += 1
            keys[slot], slots[slot], held[row] = key, row, key
            weights[row] = 0.0
            for a in range(new_rows.shape[1]):
                rows[row, a] = new_rows[i, a]
        weights[row] += new_weights[i]
        share = new_weights[i] / weights[row]
        for a in range(new_rows.shape[1]):
            rows[row, a] += share * (new_rows[i, a] - rows[row, a])
    return count
