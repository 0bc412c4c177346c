"""The sequences of the paper's experiments, read scan by scan: KITTI odometry, and HeLiPR with a choice of sensors."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchmarks.data.real_sequences import is_off, uncorrected_sequence
from benchmarks.data.rings import rings_by_order, thinned_rows
from benchmarks.experiments.paper import LAYOUTS, NotThere
from poli.errors import InputError
from poli.io.datasets import Dataset, SkippedWarning, correct_elevation, open_helipr
from poli.scan import Scan

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

KITTI = tuple(f"{number:02d}" for number in range(11))
# HeLiPR's six places. The paper names KAIST04 and DCC04; of the other places, it is the first sequence that is there.
HELIPR = ("Bridge", "Riverside", "Roundabout", "Town", "DCC", "KAIST")
NAMED = {"DCC": "DCC04", "KAIST": "KAIST04"}
TESTED = ("DCC", "KAIST")  # not trained on
SENSORS = {"velodyne": "VLP-16", "ouster": "OS2-128", "hdl64e": "HDL-64E"}
_BEAMS = 64  # of KITTI's sensor


@dataclass(frozen=True)
class Source:
    """A sequence on disk, small enough to be sent to another process."""

    dataset: Literal["kitti", "helipr"]
    root: Path
    name: str  # "00", "KAIST04"
    sensor: str  # of `SENSORS`
    beams: int | None = None  # of KITTI's 64; None: all
    scans: int = 0  # the first ones only; 0: all

    @property
    def column(self) -> str:
        """Its name in the paper's tables: that of the place for HeLiPR."""
        places = [place for place in HELIPR if self.name.lower().startswith(place.lower())]
        return places[0] if self.dataset == "helipr" and places else self.name

    @property
    def label(self) -> str:
        sensor = SENSORS[self.sensor] if self.beams in (None, _BEAMS) else f"{self.beams} beams"
        return f"{self.name}, {sensor}"

    def open(self) -> Streamed:
        return Streamed(self)


class Streamed(Sequence[Scan]):
    """The scans of a sequence, read and thinned one by one each time they are asked for, and their poses."""

    def __init__(self, source: Source) -> None:
        self.source = source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkippedWarning)  # HeLiPR's first and last scans have no pose
            self._dataset = _opened(source)
        if self._dataset.poses is None or len(self._dataset) < 2:
            lacks = "no poses" if self._dataset.poses is None else "fewer than two scans"
            raise InputError(f"{source.root}: sequence {source.name} has {lacks}; expected {LAYOUTS[source.dataset]}")
        count = len(self._dataset) if not source.scans else min(source.scans, len(self._dataset))
        self._count, self.poses = count, self._dataset.poses[:count]  # (M, 4, 4) T_world_sensor

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: Any) -> Any:
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        return _prepared(self.source, self._dataset[row % len(self)])

    def __iter__(self) -> Iterator[Scan]:
        return (self[row] for row in range(len(self)))

    @cached_property
    def stamps(self) -> list[int] | None:
        """Nanoseconds of each scan."""
        stamps = getattr(self._dataset, "stamps", None)
        return None if stamps is None else list(stamps[: len(self)])

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What outcomes depend on, for the keys of the cache: the poses, and a few scans as they are given out."""
        digest = hashlib.sha256(np.ascontiguousarray(self.poses).tobytes())
        for row in (0, len(self) // 2, len(self) - 1):
            scan = self[row]
            digest.update(np.ascontiguousarray(scan.points).tobytes())
            for name in sorted(scan.fields):
                digest.update(name.encode() + np.ascontiguousarray(scan.fields[name]).tobytes())
        about = {"name": self.source.name, "sensor": self.source.sensor, "beams": self.source.beams}
        return {**about, "scans": len(self), "digest": digest.hexdigest()}


def sources(
    options: Options,
    helipr: Sequence[str] = HELIPR,
    sensors: Sequence[str] = ("velodyne",),
    beams: int | None = None,
    datasets: Sequence[str] = ("helipr", "kitti"),
) -> list[Source]:
    """The sequences to run: those of the paper that are in the given folders, or those that are chosen.

    `beams` is the number of beams of KITTI's sensor that the table keeps; `--beams` replaces it.
    """
    found: list[Source] = []
    if options.helipr is not None and "helipr" in datasets:
        names = _names_in(options.helipr, "LiDAR", "helipr")
        chosen = [name for name in names if name in options.sequences] if options.sequences else _first_of(names, helipr)
        there = [(name, sensor) for name in chosen for sensor in sensors]
        found += [Source("helipr", options.helipr, *both) for both in there if _has(options.helipr, *both)]
    if options.kitti is not None and "kitti" in datasets:
        root = options.kitti / "dataset" if (options.kitti / "dataset" / "sequences").is_dir() else options.kitti
        names = _names_in(root / "sequences", "velodyne", "kitti")
        kept = options.beams or beams
        found += [
            Source("kitti", root, name, "hdl64e", None if kept == _BEAMS else kept)
            for name in names
            if name in (options.sequences or KITTI)
        ]
    lost = [name for name in options.sequences if name not in {source.name for source in found}]
    folders = {name: getattr(options, name) for name in datasets if getattr(options, name) is not None}
    if lost or not found:
        wanted = f"sequence {lost[0]!r}" if lost else "of the paper's sequences there is none"
        where = "; ".join(f"{folder} should hold {LAYOUTS[name]}" for name, folder in folders.items())
        raise NotThere(f"{wanted}{' is not there' if lost else ''}: {where}")
    return [replace(source, scans=options.scans) for source in found]


def _names_in(folder: Path, sign: str, kind: str) -> list[str]:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; it should hold {LAYOUTS[kind]}")
    return sorted(path.name for path in folder.iterdir() if (path / sign).is_dir())


def _first_of(names: Sequence[str], places: Sequence[str]) -> list[str]:
    """One sequence of each place: the one that the paper names, or the first."""
    found = []
    for place in places:
        here = [name for name in names if name.lower().startswith(place.lower())]
        found += [NAMED[place]] if NAMED.get(place) in here else here[:1]
    return found


def _has(root: Path, name: str, sensor: str) -> bool:
    return (root / name / "LiDAR" / sensor.capitalize()).is_dir()


@lru_cache(maxsize=4)
def _opened(source: Source) -> Dataset:
    if source.dataset == "helipr":
        return open_helipr(source.root, source.name, source.sensor)
    return uncorrected_sequence(source.root, source.name, 0.0)  # rings are found by the elevations in the files


def _prepared(source: Source, scan: Scan) -> Scan:
    """The scan with rings, as methods receive it. KITTI's are thinned by the elevations in the files, which are corrected then."""
    if source.dataset == "helipr":
        return scan
    rings = {} if "ring" in scan.fields else {"ring": rings_by_order(scan.points)}
    scan = replace(scan, fields={**scan.fields, **rings})
    if source.beams is not None:
        scan = scan.select(thinned_rows(scan.points, "hdl64e", source.beams))
    return replace(scan, points=correct_elevation(scan.points)) if is_off(source.root, source.name) else scan
