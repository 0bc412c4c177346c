"""Densify whole datasets: the same tree with denser scans in the same file format, and all other files unchanged.

`densify.json` in the tree records the input and the options.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from poli.configs import DensifyConfig
from poli.densification import resume
from poli.densification.densify import densify_or_say, densify_records
from poli.densification.resume import Densified, Engine, Step, Tally
from poli.errors import FormatError, InputError
from poli.io.atomic import atomic_path, write_array
from poli.io.datasets import guess
from poli.io.datasets.files import MANIFEST, open_folder, read_or_empty
from poli.io.datasets.kitti import sequence_name
from poli.io.datasets.stamped import LAYOUT as MULRAN
from poli.io.datasets.stamped import SENSORS, packed_layout
from poli.io.formats import format_of, write
from poli.io.formats.bin import LAYOUT as KITTI
from poli.io.formats.bin import read_packed
from poli.io.formats.numpy_files import write_npz
from poli.io.tables import write_json
from poli.scan import Scan

RUN = "densify.json"
TREES = ("kitti", "helipr", "mulran", "poli", "folder")
SEVERAL = ("kitti", "helipr", "mulran")  # datasets that may have several sequences
_SENSOR_FOLDERS = ("LiDAR", "Ouster", "sensor_data")  # in a sequence of HeLiPR or MulRan
_COPIED = 1 << 20  # bytes; larger files are hard-linked if possible

Layout: TypeAlias = np.dtype | Literal["own"]  # of packed records; "own": a self-describing format


@dataclass(frozen=True)
class ScanFile:
    """A scan to densify."""

    source: Path
    target: Path  # in the tree
    layout: Layout
    compressed: bool = False


class Tree(NamedTuple):
    """The files of a dataset, by what happens to them."""

    scans: list[ScanFile]
    others: list[Path]  # in the tree
    chosen: dict[str, Any]  # selected part of the dataset, for the description of the run; empty: all of it


def plan_tree(source: Path, out: Path, dataset: str = "auto", sensor: str | None = None, sequences: Sequence[str] = ()) -> Tree:
    """Find the scans of `source`, and the files to copy.

    `sensor` is the HeLiPR sensor to densify; None: all of them. If `sequences` are given, files of other sequences are left out.
    """
    kind = guess(source, sequences[0] if sequences else None) if dataset == "auto" else dataset
    if kind not in TREES:
        raise InputError(f"{source}: datasets of kind {kind!r} cannot be densified; expected a bag or one of {', '.join(TREES)}")
    if sensor is not None and (kind != "helipr" or sensor.lower() not in SENSORS):
        raise InputError(f"sensor is {sensor!r}; only HeLiPR has several sensors: {', '.join(SENSORS)}")
    resume.check_apart(source, out)
    if out.is_file():
        raise FormatError(f"{out}: is a file, but the output of a folder is a folder; give another name")
    layout_of = _layouts(kind, source, sensor)
    layouts = {path: layout_of(path) for path in _files(source)}
    names = tuple(dict.fromkeys(sequence_name(name) if kind == "kitti" else name for name in sequences))
    there = {_sequence_of(kind, path) for path, layout in layouts.items() if layout is not None} - {None}
    for name in names:
        if name not in there:
            raise InputError(f"{source}: no sequence {name!r}; there are {', '.join(sorted(map(str, there))) or 'none'}")
    choice = {"sensor": sensor and sensor.lower(), "sequences": list(names)}
    tree = Tree([], [], {name: value for name, value in choice.items() if value})
    for path, layout in layouts.items():
        sequence = _sequence_of(kind, path)
        if names and sequence not in (None, *names) and (kind == "kitti" or sequence in there):
            continue
        if layout is None or (source / path).stat().st_size == 0:
            tree.others.append(path)
        else:
            tree.scans.append(ScanFile(source / path, path, layout, kind == "poli"))
    if not tree.scans:
        raise FormatError(f"{source}: no scans found in this {kind} tree")
    return tree


def densify_tree(
    tree: Tree, source: Path, out: Path, config: DensifyConfig, engine: Engine, overwrite: bool = False
) -> Generator[Tally, None, None]:
    """Densify a dataset, and yield the progress after every scan. `overwrite` replaces an earlier output as a whole."""
    about = resume.describe_run(source, config, **tree.chosen)
    before = resume.read_run(out / RUN)
    if before is None and out.exists() and any(out.iterdir()):
        raise FormatError(f"{out}: already exists and was not written by poli densify; remove it, or give another name")
    there = [scan for scan in tree.scans if (out / scan.target).is_file() and not overwrite]
    if before is not None and not overwrite:
        if before != about:
            raise resume.other_settings(out, before, about)
        if len(there) == len(tree.scans):
            yield Tally(len(there), kept=len(there))
            return

    def steps(new: Path) -> Iterator[Step]:
        new.mkdir(exist_ok=True)
        write_json(new / RUN, about)
        for path in tree.others:
            _carry_over(source / path, new / path)
        for scan in there:  # the input has new scans
            _carry_over(out / scan.target, new / scan.target)
        for scan in tree.scans:
            target = new / scan.target
            if target.is_file():
                yield Step(kept=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                yield Step(replace(scan, target=target))

    yield from resume.run_steps(out, about, steps, partial(densify_file, config=config), engine, overwrite)


def read_input(file: ScanFile) -> Scan:
    """Read a scan of the tree, with its rings if the file has them."""
    if file.layout == "own":
        return read_or_empty(file.source)
    records = read_packed(file.source, file.layout)
    rings = {"ring": records["ring"]} if "ring" in (records.dtype.names or ()) else {}
    return Scan(np.stack([records[axis] for axis in "xyz"], axis=1), rings)


def densify_file(file: ScanFile, config: DensifyConfig) -> Densified:
    """Read, densify and write one scan."""
    if file.layout != "own":
        records = read_packed(file.source, file.layout)
        dense, why = densify_records(records, config, str(file.source))
        with atomic_path(file.target) as temporary:
            write_array(temporary, dense)
        return Densified(len(records), len(dense), why)
    scan = read_or_empty(file.source)
    thick, why = densify_or_say(scan, config)
    if file.compressed:
        write_npz(file.target, thick, compressed=True)
    else:
        write(thick, file.target, format_of(file.source))  # a .bin file may be KITTI's or nuScenes'
    return Densified(len(scan), len(thick), why)


# --- what the files of a dataset are


def _sequence_of(kind: str, path: Path) -> str | None:
    """Return the sequence of a scan, or of another file in the folder of one, by its path in the tree; None: it has none."""
    parts = path.parts
    if kind != "kitti":
        return parts[0] if kind in SEVERAL and parts[0] not in _SENSOR_FOLDERS else None
    parts = parts[1:] if parts[0] == "dataset" else parts  # the layout of KITTI's archives
    if len(parts) > 2 and parts[0] == "sequences":
        return parts[1]
    return path.stem if len(parts) == 2 and parts[0] == "poses" else None


def _layouts(kind: str, source: Path, sensor: str | None) -> Callable[[Path], Layout | None]:
    """Return a function that returns the layout of a file, given by its path in the tree; None: it is not a scan."""
    if kind == "folder":
        scans = {file.relative_to(source) for file in open_folder(source).files}
        return lambda path: "own" if path in scans else None
    if kind == "poli":
        if not (source / MANIFEST).is_file():
            raise FormatError(f"{source}: no {MANIFEST}; this folder is not a poli dataset")
        return lambda path: "own" if path.parent == Path("scans") and path.suffix == ".npz" else None
    sensors = {name.capitalize(): name for name in (SENSORS if sensor is None else (sensor.lower(),))}

    def layout_of(path: Path) -> Layout | None:
        if path.suffix != ".bin" or not (path.stem.isascii() and path.stem.isdigit()):
            return None
        folder = (source.resolve() / path).parent
        if kind == "helipr":
            known = folder.name in sensors and folder.parent.name == "LiDAR"
            return packed_layout(sensors[folder.name], int(path.stem)) if known else None
        return {("kitti", "velodyne"): KITTI, ("mulran", "Ouster"): MULRAN}.get((kind, folder.name))

    return layout_of


def _files(source: Path) -> Iterator[Path]:
    """Yield the paths of all files in the tree, sorted by name. Follow linked folders, except into their own parents."""
    for place, folders, names in os.walk(source, followlinks=True):
        here = Path(place)
        above = {here.resolve(), *here.resolve().parents}
        folders[:] = sorted(name for name in folders if not ((here / name).is_symlink() and (here / name).resolve() in above))
        found = (here.relative_to(source) / name for name in sorted(names) if (here / name).is_file())
        yield from (path for path in found if path != Path(RUN))


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
