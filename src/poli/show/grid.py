"""How many panels stand beside each other. `viewer/layout.js` has the same numbers."""

from __future__ import annotations

from dataclasses import dataclass

_WIDEST, _NARROWEST = 2.2, 0.75  # width to height: what a panel has beyond is of no use to it


@dataclass(frozen=True)
class Grid:
    columns: int
    rows: int
    width: int  # pixels, of a panel
    height: int


def grid_of(count: int, width: int, height: int, gap: int) -> Grid:
    """The grid of `count` panels on so many pixels that wastes least: places without a panel, and panels too wide or too narrow."""
    return max((_grid(count, columns, width, height, gap) for columns in range(1, count + 1)), key=_useful)


def _grid(count: int, columns: int, width: int, height: int, gap: int) -> Grid:
    rows = -(-count // columns)
    return Grid(columns, rows, (width - gap * (columns - 1)) // columns, (height - gap * (rows - 1)) // rows)


def _useful(grid: Grid) -> float:
    """Pixels of a panel; there are as many panels in every grid."""
    return min(grid.width, _WIDEST * grid.height) * min(grid.height, grid.width / _NARROWEST)
