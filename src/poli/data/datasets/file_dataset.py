"""A dataset with one file per scan."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from poli.data.datasets.protocol import Skipped, row_of
from poli.errors import FormatError, InputError
from poli.scan import Scan


@dataclass(frozen=True, eq=False)
class FileDataset:
    """A `Dataset` with one file per scan. Non-finite points and zero returns are dropped and counted in `Scan.dropped`."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[Path], Scan]
    stamps: tuple[int, ...] | None = None  # nanoseconds
    poses: np.ndarray | None = None  # (M, 4, 4) T_world_sensor
    skipped: tuple[Skipped, ...] = ()
    min_range: float = 0.0  # meters; closer returns are dropped (the vehicle itself)

    def __post_init__(self) -> None:
        if not self.min_range >= 0.0:
            raise InputError(f"min_range is {self.min_range!r}; expected a distance in meters, 0 to keep every return")
        for what, rows in (("stamps", self.stamps), ("poses", self.poses)):
            if rows is not None and len(rows) != len(self.files):
                raise InputError(f"{self.name}: {len(rows)} {what} for {len(self.files)} scans")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> Scan:
        row = row_of(index, len(self))
        path = self.files[row]
        try:
            scan = self.read(path)
        except OSError as error:
            raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
        except InputError as error:  # well-formed, but not a scan
            raise FormatError(f"{path}: {error}") from None
        scan = scan.clean()
        if self.stamps is not None:
            scan = replace(scan, stamp=self.stamps[row])
        return beyond(scan, self.min_range)

    def __iter__(self) -> Iterator[Scan]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {len(self)} scans, {'no poses' if self.poses is None else 'with poses'})"


def beyond(scan: Scan, min_range: float) -> Scan:
    """Return the scan without the returns closer than `min_range` meters."""
    if min_range == 0.0:
        return scan
    far = np.linalg.norm(scan.points.astype(np.float64), axis=1) >= min_range
    return scan if far.all() else scan.select(far)
