"""Densify whole datasets: the same tree with denser scans in the same file format, and all other files unchanged.

Scans are written elsewhere and moved into place, so existing files are complete, and a run that was stopped continues with the
missing ones. `densify.json` in the tree records the input and the options.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from poli.configs import DensifyConfig
from poli.densification.densify import Tally, densify_or_say, densify_records
from poli.densification.engines import Engine, Promise
from poli.densification.resume import TEMPORARY, check_apart, describe_run, differences, read_run, workspace, workspace_of
from poli.errors import FormatError, InputError, WriteError
from poli.io.atomic import atomic_path, remove_stale, write_array, writing
from poli.io.datasets.files import open_folder, read_or_empty
from poli.io.datasets.kitti import sequence_name
from poli.io.datasets.poli_folder import MANIFEST
from poli.io.datasets.registry import guess
from poli.io.datasets.stamped import LAYOUT as MULRAN
from poli.io.datasets.stamped import SENSORS, packed_layout
from poli.io.formats import format_of, write
from poli.io.formats.bin import LAYOUT as KITTI
from poli.io.formats.bin import read_packed
from poli.io.formats.numpy_files import write_npz
from poli.io.locks import made_by_another
from poli.io.tables import write_json
from poli.scan import Scan

# --- Select sequences of a dataset, and the files that belong to them.


SEVERAL = ("kitti", "helipr", "mulran")  # datasets that may have several sequences
_SIGNS = {"helipr": ("LiDAR",), "mulran": ("Ouster", "sensor_data/Ouster")}  # subfolders by which a sequence is recognized


class Chosen:
    """The selected sequences. If `wanted` is empty, all are selected."""

    def __init__(self, kind: str, source: Path, wanted: Sequence[str]) -> None:
        self._kind = kind
        self.names = tuple(dict.fromkeys(sequence_name(name) if kind == "kitti" else name for name in wanted))
        if self.names and kind not in SEVERAL:
            raise InputError(f"{source}: datasets of kind {kind!r} have no sequences; only {', '.join(SEVERAL)} have")
        self._there = _sequences(kind, source) if self.names else []
        for name in self.names:
            if name not in self._there:
                raise InputError(f"{source}: no sequence {name!r}; there are {', '.join(self._there) or 'none'}")

    def holds(self, path: Path) -> bool:
        """Whether a file, given by its path in the tree, belongs to a selected sequence or to no sequence."""
        sequence = self._sequence_of(path) if self.names else None
        return sequence is None or sequence in self.names

    def _sequence_of(self, path: Path) -> str | None:
        parts = path.parts
        if self._kind != "kitti":
            return parts[0] if parts[0] in self._there else None
        parts = parts[1:] if parts[0] == "dataset" else parts  # the layout of KITTI's archives
        if len(parts) > 2 and parts[0] == "sequences":
            return parts[1]
        return path.stem if len(parts) == 2 and parts[0] == "poses" else None


def _sequences(kind: str, source: Path) -> list[str]:
    if kind != "kitti":
        return sorted(p.name for p in source.iterdir() if any((p / sign).is_dir() for sign in _SIGNS[kind]))
    folders = (source / "sequences", source / "dataset" / "sequences")
    return sorted(p.name for folder in folders if folder.is_dir() for p in folder.iterdir() if (p / "velodyne").is_dir())


RUN = "densify.json"
TREES = ("kitti", "helipr", "mulran", "poli", "folder")
_COPIED = 1 << 20  # bytes; larger files are hard-linked if possible


Layout: TypeAlias = np.dtype | Literal["own"]  # of packed records; "own": a self-describing format


@dataclass(frozen=True)
class ScanFile:
    source: Path
    target: Path
    layout: Layout
    scratch: Path  # folder for unfinished files
    compressed: bool = False


@dataclass(frozen=True)
class Tree:
    scans: list[ScanFile]
    others: list[tuple[Path, Path]]
    left_out: list[Path]  # targets of the files of other sequences
    chosen: dict[str, Any]  # selected part of the dataset, for the description of the run; empty: all of it


def plan_tree(source: Path, out: Path, dataset: str = "auto", sensor: str | None = None, sequences: Sequence[str] = ()) -> Tree:
    """Find the scans of `source` and the path of each output file.

    `sensor` is the HeLiPR sensor to densify; None: all of them. If `sequences` are given, files of other sequences are left out.
    """
    kind = guess(source, sequences[0] if sequences else None) if dataset == "auto" else dataset
    if kind not in TREES:
        raise InputError(f"{source}: datasets of kind {kind!r} cannot be densified; expected a bag or one of {', '.join(TREES)}")
    if sensor is not None and (kind != "helipr" or sensor.lower() not in SENSORS):
        raise InputError(f"sensor is {sensor!r}; only HeLiPR has several sensors: {', '.join(SENSORS)}")
    check_apart(source, out)
    if out.is_file():
        raise FormatError(f"{out}: is a file, but the output of a folder is a folder; give another name")
    is_scan, scratch = _rule(kind, source, sensor), workspace_of(out) / TEMPORARY
    wanted = Chosen(kind, source, sequences)
    choice = {"sensor": sensor and sensor.lower(), "sequences": list(wanted.names)}
    tree = Tree([], [], [], {name: value for name, value in choice.items() if value})
    for path in _files(source):
        relative = path.relative_to(source)
        if not wanted.holds(relative):
            tree.left_out.append(out / relative)
            continue
        layout = is_scan(relative)
        if layout is None or path.stat().st_size == 0:
            tree.others.append((path, out / relative))
        else:
            tree.scans.append(ScanFile(path, out / relative, layout, scratch, kind == "poli"))
    if not tree.scans:
        raise FormatError(f"{source}: no scans found in this {kind} tree")
    return tree


def densify_tree(
    tree: Tree,
    source: Path,
    out: Path,
    config: DensifyConfig,
    engine: Engine,
    overwrite: bool = False,
) -> Generator[Tally, None, None]:
    """Densify a dataset, and yield the progress after every scan. Existing scans are kept unless `overwrite`."""
    run = describe_run(source, config, **tree.chosen)
    before = read_run(out / RUN)
    if before is not None and before != run and not overwrite:
        raise FormatError(
            f"{out}: was written with other settings ({differences(before, run)}); remove it, give another name, or pass "
            "overwrite=True to replace it"
        )
    if before == run and not overwrite and made_by_another(out / RUN):
        raise FormatError(
            f"{out}: was started by another user, whose scans would be kept unchecked; give another name, or pass overwrite=True "
            "to replace it"
        )
    if before is None and out.is_dir():
        remove_stale(out)  # left by a run that was killed before it wrote anything
    if before is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FormatError(f"{out}: already exists and was not written by poli densify; remove it, or give another name")
    _check_inside(tree, out)
    with workspace(out):
        out.mkdir(exist_ok=True)
        if overwrite:  # remove all old files first, in case this run is stopped
            for target in (*(scan.target for scan in tree.scans), *(target for _, target in tree.others), *tree.left_out):
                target.unlink(missing_ok=True)
        write_json(out / RUN, run)
        for path, target in tree.others:
            _carry_over(path, target)
        yield from _densify_missing(tree, config, engine)


def _check_inside(tree: Tree, out: Path) -> None:
    """Raise if a folder in `out` is a link that leads out of it: files would be written or removed elsewhere."""
    root = out.resolve()
    targets = (*(scan.target for scan in tree.scans), *(target for _, target in tree.others), *tree.left_out)
    for folder in dict.fromkeys(target.parent for target in targets):
        if root not in (folder.resolve(), *folder.resolve().parents):
            raise FormatError(f"{folder}: is a link that leads out of {out}; remove it, or choose another output name")


def _densify_missing(tree: Tree, config: DensifyConfig, engine: Engine) -> Iterator[Tally]:
    tally, waiting = Tally(), deque[Promise]()
    work = partial(densify_file, config=config)
    for scan in tree.scans:
        if scan.target.is_file():
            tally.add(0, 0, kept=True)
            yield tally
            continue
        scan.target.parent.mkdir(parents=True, exist_ok=True)
        waiting.append(engine.submit(work, scan))
        if len(waiting) >= engine.window:
            tally.add(*waiting.popleft().result())
            yield tally
    while waiting:
        tally.add(*waiting.popleft().result())
        yield tally


def read_input(file: ScanFile) -> Scan:
    """Read a scan of the tree, with its rings if the file has them."""
    if file.layout == "own":
        return read_or_empty(file.source)
    records = read_packed(file.source, file.layout)
    rings = {"ring": records["ring"]} if "ring" in (records.dtype.names or ()) else {}
    return Scan(np.stack([records[axis] for axis in "xyz"], axis=1), rings)


def densify_file(file: ScanFile, config: DensifyConfig) -> tuple[int, int, str]:
    """Read, densify and write one scan. Return its number of points before and after, and the reason if none were added.

    Unfinished files are kept outside the tree: dataset readers fail on unexpected file names among the scans.
    """
    unfinished = file.scratch / f"{secrets.token_hex(8)}{''.join(file.target.suffixes)}"
    try:
        counts, why = _densify_to(unfinished, file, config)
    except WriteError as error:  # replace the temporary name, which means nothing to the user
        raise WriteError(str(error).replace(str(unfinished), str(file.target))) from None
    with writing(file.target, file.scratch):
        unfinished.replace(file.target)
    return *counts, why


def _densify_to(unfinished: Path, file: ScanFile, config: DensifyConfig) -> tuple[tuple[int, int], str]:
    if file.layout != "own":
        records = read_packed(file.source, file.layout)
        dense, why = densify_records(records, config, str(file.source))
        with atomic_path(unfinished) as temporary:
            write_array(temporary, dense)
        counts = len(records), len(dense)
    else:
        scan = read_or_empty(file.source)
        thick, why = densify_or_say(scan, config)
        if file.compressed:
            write_npz(unfinished, thick, compressed=True)
        else:
            write(thick, unfinished, format_of(file.source))  # a .bin file may be KITTI's or nuScenes'
        counts = len(scan), len(thick)
    return counts, why


# --- scan files

Rule = Callable[[Path], Layout | None]  # of a relative path; None if it is not a scan


def _rule(kind: str, source: Path, sensor: str | None) -> Rule:
    if kind == "kitti":
        return lambda path: KITTI if _stored_as(path, source, "velodyne", ".bin") else None
    if kind == "mulran":
        return lambda path: MULRAN if _stored_as(path, source, "Ouster", ".bin") else None
    if kind == "poli":
        if not (source / MANIFEST).is_file():
            raise FormatError(f"{source}: no {MANIFEST}; this folder is not a poli dataset")
        return lambda path: "own" if path.parent == Path("scans") and path.suffix == ".npz" else None
    if kind == "helipr":
        return partial(_helipr, source=source, chosen=SENSORS if sensor is None else (sensor.lower(),))
    scans = {file.relative_to(source) for file in open_folder(source).files}
    return lambda path: "own" if path in scans else None


def _helipr(path: Path, source: Path, chosen: tuple[str, ...]) -> np.dtype | None:
    for sensor in chosen:
        if _stored_as(path, source, sensor.capitalize(), ".bin") and (source.resolve() / path).parent.parent.name == "LiDAR":
            return packed_layout(sensor, int(path.stem))
    return None


def _stored_as(path: Path, source: Path, folder: str, ending: str) -> bool:
    """Whether the name of a file is a number, and it is in a folder of that name."""
    parent = path.parent.name or source.resolve().name
    return parent == folder and path.suffix == ending and path.stem.isascii() and path.stem.isdigit()


# --- other files


def _files(source: Path) -> Iterator[Path]:
    """Yield all files, sorted by name. Follow linked folders, except into their own parents."""
    for place, folders, names in os.walk(source, followlinks=True):
        above = {Path(place).resolve(), *Path(place).resolve().parents}
        folders[:] = sorted(f for f in folders if not (Path(place, f).is_symlink() and Path(place, f).resolve() in above))
        for name in sorted(names):
            if Path(place, name).is_file() and not (place == str(source) and name == RUN):
                yield Path(place, name)


def _carry_over(path: Path, target: Path) -> None:
    """Copy a small file, so that editing it does not change the original. Hard-link a large one if possible."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.stat().st_size > _COPIED:
        with suppress(OSError):
            os.link(path.resolve(), target)
            return
    with atomic_path(target) as temporary:
        shutil.copy2(path, temporary)
