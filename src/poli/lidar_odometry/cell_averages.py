"""Averages per grid cell, over any number of rows, in limited memory.

Cells are kept in a hash table. When it is full, the half that was not updated for longest moves to files. A cell that is updated
later starts again, so it may be in a file several times. All entries of a cell are in the same one of `_FILES` files, chosen by a
hash. At the end, the files are read one by one, and the entries of each cell are averaged. The result is the same as with unlimited
memory, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from poli.errors import InputError
from poli.io.atomic import temporary_folder
from poli.kernel import kernel
from poli.options import real_number
from poli.voxels import VOXELS_REACH, fill_slots, find_slot, voxel_key

MOST_CELLS = 1 << 20  # in memory: 80 MB for points, 150 MB for ellipsoids
_FIRST_CELLS = 1 << 14
_FILES = 256  # each fits into memory: 50 MB of points, if the map has 250 million
_MIX = np.int64(-7046029254386353131)  # an odd number: its products spread the keys over the files
_ROWS = 1 << 16  # averages that are copied at once


class CellAverages:
    """Weighted averages of rows of numbers, one per cell of `cell` meters. The first three columns of a row are its position."""

    def __init__(self, cell: float, columns: int, folder: Path, most_cells: int = MOST_CELLS) -> None:
        """`folder` must exist when the table is full: the hidden temporary files are there until `close`."""
        self.cell = real_number(cell, "cell", "a positive number of meters", above=True)
        self._folder, self._columns = folder, columns
        self._most = 1 << max(int(np.ceil(np.log2(most_cells))), 2)
        self._entry = np.dtype([("key", "i8"), ("weight", "f8"), ("row", "f8", (columns,))])
        self._opened = ExitStack()
        self._files: list[Path] = []
        self.moved = 0  # entries in the files
        self._count = self._turn = 0
        self._allocate(min(_FIRST_CELLS, self._most))

    def add(self, rows: np.ndarray, weights: np.ndarray) -> None:  # (N, columns), (N,) positive
        reach = np.abs(rows[:, :3]).max(initial=0.0) / self.cell
        if not reach < VOXELS_REACH:
            raise InputError(
                f"the map, with voxels of {self.cell:g} m, cannot extend farther than {VOXELS_REACH * self.cell / 1000:.0f} km "
                "from the first scan; use larger voxels"
            )
        self._turn += 1
        rows, weights = np.ascontiguousarray(rows, np.float64), np.ascontiguousarray(weights, np.float64)
        batch = self._most // 4
        for start in range(0, len(rows), batch):
            self._add(rows[start : start + batch], weights[start : start + batch])

    def averages(self) -> Iterator[np.ndarray]:  # (n, columns) each
        """Yield the average of every cell, in parts. Nothing can be added afterwards."""
        if self._files:
            self._move(np.arange(self._count))
            self._allocate(4)  # frees the table
            for path in self._files:
                yield _merged(np.fromfile(path, self._entry))["row"]
            return
        order = np.argsort(self._held[: self._count])
        for start in range(0, len(order), _ROWS):
            yield self._rows[order[start : start + _ROWS]]

    def close(self) -> None:
        """Remove the temporary files."""
        self._opened.close()

    # --- the table ---------------------------------------------------------------------------------------------------

    def _add(self, rows: np.ndarray, weights: np.ndarray) -> None:
        self._reserve(len(rows))
        self._count = _average(
            self._keys, self._slots, self._held, self._weights, self._rows, self._updated, self._count,
            rows, weights, self.cell, self._turn,
        )  # fmt: skip

    def _reserve(self, more: int) -> None:
        """Make room for `more` cells, at most a quarter of the full table."""
        if self._count + more > len(self._rows) and len(self._rows) < self._most:
            self._grow(self._count + more)
        if self._count + more > len(self._rows):
            self._move_stale()

    def _grow(self, cells: int) -> None:
        n, old = self._count, [a[: self._count] for a in self._arrays()]
        self._allocate(min(1 << int(np.ceil(np.log2(2 * cells))), self._most))
        for array, values in zip(self._arrays(), old, strict=True):
            array[:n] = values
        fill_slots(self._keys, self._slots, self._held[:n])

    def _move_stale(self) -> None:
        """Move the cells that were not updated for longest to the files: at least half of all."""
        updated = self._updated[: self._count]
        stale = updated <= np.partition(updated, self._count // 2)[self._count // 2]
        self._move(np.flatnonzero(stale))
        kept = np.flatnonzero(~stale)
        for array in self._arrays():
            array[: len(kept)] = array[kept]
        self._count = len(kept)
        self._slots[:] = -1
        fill_slots(self._keys, self._slots, self._held[: self._count])

    def _allocate(self, cells: int) -> None:
        self._rows, self._weights = np.empty((cells, self._columns)), np.empty(cells)
        self._held, self._updated = np.empty(cells, np.int64), np.empty(cells, np.int32)  # key of the cell, turn of its last row
        self._keys, self._slots = np.zeros(2 * cells, np.int64), np.full(2 * cells, -1, np.int32)

    def _arrays(self) -> list[np.ndarray]:
        return [self._rows, self._weights, self._held, self._updated]

    # --- the files ---------------------------------------------------------------------------------------------------

    def _move(self, rows: np.ndarray) -> None:
        """Append rows of the table to the files."""
        if not self._files:
            place = self._opened.enter_context(temporary_folder(self._folder))
            self._files = [place / str(number) for number in range(_FILES)]
            for path in self._files:
                path.touch()
        number = (self._held[rows] * _MIX >> 33) % _FILES
        order = rows[np.argsort(number, kind="stable")]
        ends = np.cumsum(np.bincount(number, minlength=_FILES))
        for path, those in zip(self._files, np.split(order, ends[:-1]), strict=True):
            entries = np.empty(len(those), self._entry)
            entries["key"], entries["weight"], entries["row"] = self._held[those], self._weights[those], self._rows[those]
            with path.open("ab") as file:
                file.write(entries.tobytes())
        self.moved += len(rows)


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
def _average(keys, slots, held, weights, rows, updated, count, new_rows, new_weights, cell, turn):
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
        updated[row] = turn
    return count
