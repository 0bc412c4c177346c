"""Datasets of files named by their stamps, with poses matched by stamp."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from poli.data.datasets.file_dataset import FileDataset
from poli.data.datasets.protocol import Skipped, warn_skipped
from poli.data.datasets.stamped_poses import StampedPoses
from poli.errors import FormatError, InputError
from poli.scan import Scan


def stamped_files(folder: Path, ending: str) -> list[Path]:
    """Return the files `<stamp><ending>` of a folder in the order of their stamps as integers: as text, 999 would follow 1000."""
    if not folder.is_dir():
        raise FormatError(f"{folder}: no such folder")
    by_stamp: dict[int, Path] = {}
    for path in sorted(folder.glob(f"*{ending}")):
        if not (path.stem.isascii() and path.stem.isdigit()) or int(path.stem) >= 1 << 63:
            raise FormatError(f"{path}: expected a file named by its stamp in nanoseconds; move it elsewhere")
        twin = by_stamp.setdefault(int(path.stem), path)
        if twin != path:
            raise FormatError(f"{path}: same stamp as {twin.name}; remove one of the two")
    if not by_stamp:
        raise FormatError(f"{folder}: the folder has no {ending} files")
    return [by_stamp[stamp] for stamp in sorted(by_stamp)]


def stamped_dataset(
    name: str,
    files: list[Path],  # named by their stamps, ascending
    read: Callable[[Path], Scan],
    trajectory: StampedPoses | None,
    tolerance: float,  # seconds
    min_range: float,
) -> FileDataset:
    """Pair every scan with the pose nearest to its stamp. Scans without a pose within `tolerance` are skipped and reported."""
    stamps = [int(path.stem) for path in files]
    if trajectory is None:
        return FileDataset(name, tuple(files), read, tuple(stamps), min_range=min_range)
    if not tolerance >= 0.0:
        raise InputError(f"tolerance is {tolerance!r}; expected the largest time between scan and pose, in seconds")
    rows = trajectory.nearest(np.array(stamps, np.int64), round(tolerance * 1e9))
    if (rows < 0).all():
        known = f"{trajectory.stamps[0]} to {trajectory.stamps[-1]}" if len(trajectory.stamps) else "none"
        raise FormatError(
            f"{name}: no scan has a pose within {tolerance:g} s: scan stamps {stamps[0]} to {stamps[-1]}, pose stamps {known}",
            argument="poses", value=False, remedy="increase the tolerance, or pass {argument} to read the scans without poses",
        )  # fmt: skip
    why = f"no pose within {tolerance:g} s"
    skipped = tuple(Skipped(path.name, why) for path, row in zip(files, rows, strict=True) if row < 0)
    warn_skipped(name, skipped)
    kept = np.flatnonzero(rows >= 0)
    return FileDataset(
        name,
        tuple(files[k] for k in kept),
        read,
        tuple(stamps[k] for k in kept),
        trajectory.poses[rows[kept]],
        skipped,
        min_range,
    )
