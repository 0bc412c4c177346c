"""Datasets read by the loaders of kiss-icp (extra `bench`)."""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from poli.errors import FormatError, MissingExtra, PoliError
from poli.io.datasets.files import Dataset
from poli.io.trajectory_files import rigid_poses
from poli.options import real_number
from poli.scan import Scan

LOADERS = ("apollo", "boreas", "generic", "ncd", "nclt", "nuscenes", "ouster", "tum")
_PERIOD = 0.1  # seconds; a spinning LiDAR at 10 Hz


class KissDataset(Dataset):
    """Scans of a kiss-icp loader. Its times, fractions of a scan, are multiplied by `period` seconds. Stamps are not available."""

    def __init__(self, name: str, loader: Any, poses: np.ndarray | None, period: float) -> None:
        self.name, self.poses = name, poses
        self._loader, self._period = loader, period

    def __len__(self) -> int:
        return len(self._loader)

    def _scan(self, row: int) -> Scan:
        with _loader_errors(self.name, f"scan {row}"):
            item = self._loader[row]
            points, times = item if isinstance(item, tuple) else (item, ())
            points, times = np.asarray(points, np.float64).reshape(-1, 3), np.asarray(times, np.float64)
        if not len(times):
            return Scan(points).clean()
        if len(times) != len(points) or not ((times >= 0.0) & (times <= 1.0)).all():
            raise FormatError(f"{self.name}: scan {row}: expected a time between 0 and 1 for each of its {len(points)} points")
        return Scan(points, {"time": times * self._period}).clean()


def open_kiss(
    loader: str,
    path: str | os.PathLike[str],
    sequence: str | int | None = None,
    meta: str | os.PathLike[str] | None = None,
    poses: bool = True,
    period: float = _PERIOD,
) -> KissDataset:
    """Open `path` with the kiss-icp loader of that name. `poses=False` ignores the loader's poses, if it has any."""
    try:
        from kiss_icp.datasets import dataset_factory
    except ImportError:
        raise MissingExtra(f"dataset {loader!r}", "bench") from None
    if not Path(path).exists():
        raise FormatError(f"{path}: no such file or folder")
    period = real_number(period, "period", "the duration of a scan in seconds", above=True)
    name = f"{loader} {Path(path).resolve().name}" + (f" {sequence}" if sequence is not None else "")
    options = {key: value for key, value in {"sequence": sequence, "meta": meta}.items() if value is not None}
    with _loader_errors(name, "opening"):
        found = dataset_factory(dataloader=loader, data_dir=Path(path), **options)
        count = len(found)
    if not count:
        raise FormatError(f"{name}: no scans at {path}")
    known = getattr(found, "gt_poses", None) if poses else None
    if known is not None:
        known = np.asarray(known, np.float64)
        if known.shape != (count, 4, 4):
            raise FormatError(f"{name}: {len(known)} poses for {count} scans; pass poses=False to read the scans without poses")
        known = rigid_poses(known[:, :3].reshape(-1, 12), name, range(count))
    return KissDataset(name, found, known, period)


@contextlib.contextmanager
def _loader_errors(name: str, doing: str) -> Iterator[None]:
    """Convert failures to FormatError: loaders print and exit if a package is missing, and raise any type on damaged files."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            yield
    except PoliError:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(said.getvalue().split()) or f"{type(error).__name__}: {error}"
        raise FormatError(f"{name}: {doing}: the kiss-icp loader failed: {text[:300]}") from None
