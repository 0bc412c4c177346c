"""Sequences of scans: public datasets, ROS bags, folders, and the poli format. `dataset` opens any of them by name."""

import inspect
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from poli.beams.corrections import BeamCalibration
from poli.errors import FormatError, InputError, did_you_mean
from poli.io.datasets.bags import ENDINGS, BagDataset, open_bag
from poli.io.datasets.files import (
    MANIFEST,
    Dataset,
    FileDataset,
    FolderDataset,
    Skipped,
    SkippedWarning,
    open_folder,
    open_poli_folder,
    scan_ending,
    write_folder,
)
from poli.io.datasets.kiss import LOADERS, open_kiss
from poli.io.datasets.kitti import correct_elevation, open_kitti, write_kitti
from poli.io.datasets.kitti_raw import SCANS, drives, open_kitti_raw
from poli.io.datasets.stamped import open_helipr, open_mulran
from poli.options import real_number
from poli.scan import Scan

__all__ = [
    "BagDataset",
    "CalibratedDataset",
    "Dataset",
    "FileDataset",
    "FolderDataset",
    "Skipped",
    "SkippedWarning",
    "correct_elevation",
    "dataset",
    "dataset_names",
    "guess",
    "open_bag",
    "open_folder",
    "open_helipr",
    "open_kiss",
    "open_kitti",
    "open_kitti_raw",
    "open_mulran",
    "open_poli_folder",
    "register_dataset",
    "write_folder",
    "write_kitti",
]


class CalibratedDataset(Dataset):
    """The scans of another dataset, corrected by a calibration of the beams as they are read."""

    def __init__(self, dataset: Dataset, calibration: BeamCalibration) -> None:
        self.dataset, self.calibration = dataset, calibration
        self.name, self.poses, self.skipped = dataset.name, dataset.poses, dataset.skipped

    def __len__(self) -> int:
        return len(self.dataset)

    def _scan(self, row: int) -> Scan:
        return self.calibration.apply(self.dataset[row])


_FACTORIES: dict[str, Callable[..., Dataset]] = {
    "kitti": open_kitti,
    "kitti_raw": open_kitti_raw,
    "helipr": open_helipr,
    "mulran": open_mulran,
    "poli": open_poli_folder,
    "bag": open_bag,
    "folder": open_folder,
    **{loader: partial(open_kiss, loader) for loader in LOADERS},
}

_SIGNS = {  # files and folders by which a dataset is recognized
    "poli": [MANIFEST],
    "bag": ["metadata.yaml"],
    "kitti": ["sequences", "dataset/sequences", "velodyne"],
    "kitti_raw": [SCANS],
    "helipr": ["LiDAR"],
    "mulran": ["Ouster", "sensor_data/Ouster"],
}


def dataset(name: str | None, path: str | os.PathLike[str], *, min_range: float = 0.0, **options: Any) -> Dataset:
    """Open the dataset at `path`: `poli.dataset("kitti", path, sequence="07")`.

    Names: kitti, kitti_raw, helipr, mulran, poli (our own format), bag (ROS), folder (of scan files), and the kiss-icp loaders
    apollo, boreas, generic, ncd, nclt, nuscenes, ouster and tum; "auto" or None detects the name. The options of each are
    documented in its `open_*` function in `poli.io.datasets`. Returns closer than `min_range` meters are dropped.
    """
    if name is None or name == "auto":
        name = guess(path, options.get("sequence"))
    if name not in _FACTORIES:
        raise InputError(f"unknown dataset {name!r}; choose from {', '.join(_FACTORIES)}{did_you_mean(name, _FACTORIES)}")
    factory = _FACTORIES[name]
    parameters = list(inspect.signature(factory).parameters.values())[1:]  # the first is the path
    known = [*(p.name for p in parameters), "min_range"]
    unknown = [option for option in options if option not in known]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise InputError(f"dataset {name!r} has no option {unknown[0]!r}; it has {', '.join(known)}")
    opened = factory(path, **options)
    if min_range:
        opened.min_range = real_number(min_range, "min_range", "a distance in meters, 0 to keep every return")
    return opened


def register_dataset(name: str, factory: Callable[..., Dataset], replace: bool = False) -> None:
    """Register `factory(path, **options)` for `dataset` under `name`."""
    if not name or name == "auto" or (name in _FACTORIES and not replace):
        raise InputError(f"cannot register dataset {name!r}: the name is taken; pass replace=True to replace it")
    _FACTORIES[name] = factory


def dataset_names() -> tuple[str, ...]:
    """Return the names that `dataset` accepts."""
    return tuple(_FACTORIES)


def guess(path: str | os.PathLike[str], sequence: str | int | None = None) -> str:
    """Detect which dataset is at `path`, from the names of its files and folders."""
    place = Path(path)
    if not place.exists():
        raise FormatError(f"{place}: no such file or folder")
    if place.is_file() and place.suffix in ENDINGS:
        return "bag"
    if place.is_dir():
        for inside in [place] if sequence is None else [place / str(sequence), place]:
            for name, signs in _SIGNS.items():
                if any((inside / sign).exists() for sign in signs):
                    return name
        if drives(place):
            return "kitti_raw"
        if any(scan_ending(file) for file in place.iterdir()):
            return "folder"
        if not any(place.iterdir()):
            raise FormatError(f"{place}: the folder is empty; choose a folder with scans")
    elif scan_ending(place):
        raise FormatError(f"{place}: is a single scan, not a dataset; pass the folder with the scans (`poli.read` reads one scan)")
    raise FormatError(f"{place}: dataset type not recognized; specify one of {', '.join(_FACTORIES)}")
