"""Whole datasets: the same tree with denser scans, in the same byte format, and every other file as it is.

Scans are written elsewhere and moved into place, so that a file that is there is whole; a run that was stopped goes on with those
that are missing. `densify.json` in the tree says what it was made of and how.
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

from poli.data.datasets.folder import open_folder, read_or_empty
from poli.data.datasets.helipr import SENSORS, packed_layout
from poli.data.datasets.mulran import LAYOUT as MULRAN
from poli.data.datasets.poli_folder import MANIFEST
from poli.data.datasets.registry import guess
from poli.data.formats import format_of, write
from poli.data.formats.kitti_bin import LAYOUT as KITTI
from poli.data.formats.kitti_bin import read_packed
from poli.data.formats.numpy_files import write_npz
from poli.errors import FormatError, InputError, WriteError
from poli.files.atomic import atomic_path
from poli.files.failures import writing
from poli.files.private import made_by_another
from poli.files.records import write_array
from poli.files.tables import write_json
from poli.files.temporary import remove_stale
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.engines import Engine, Promise
from poli.tasks.densify.report import Tally
from poli.tasks.densify.resume import (
    TEMPORARY,
    check_apart,
    describe_run,
    differences,
    read_run,
    workspace,
    workspace_of,
)
from poli.tasks.densify.scans import densify_or_say, densify_records
from poli.tasks.densify.sequences import Chosen

RUN = "densify.json"
TREES = ("kitti", "helipr", "mulran", "poli", "folder")
_COPIED = 1 << 20  # bytes: larger files are linked where that is possible


Layout: TypeAlias = np.dtype | Literal["own"]  # of packed records, or of files that say themselves what they hold


@dataclass(frozen=True)
class ScanFile:
    source: Path
    target: Path
    layout: Layout
    scratch: Path  # a folder for what is not finished
    compressed: bool = False


@dataclass(frozen=True)
class Tree:
    scans: list[ScanFile]
    others: list[tuple[Path, Path]]
    left_out: list[Path]  # where files of other sequences would go
    chosen: dict[str, Any]  # what of the dataset, for the description of the run; empty: all of it


def plan_tree(source: Path, out: Path, dataset: str = "auto", sensor: str | None = None, sequences: Sequence[str] = ()) -> Tree:
    """Which files of `source` are scans, and where they go.

    `sensor` names the one of HeLiPR's to densify; None: each of them. Files of other `sequences` than those named are left out.
    """
    kind = guess(source, sequences[0] if sequences else None) if dataset == "auto" else dataset
    if kind not in TREES:
        raise InputError(f"{source}: a tree of kind {kind!r} cannot be densified; known are bags and {', '.join(TREES)}")
    if sensor is not None and (kind != "helipr" or sensor.lower() not in SENSORS):
        raise InputError(f"sensor is {sensor!r}; only HeLiPR has several: {', '.join(SENSORS)}")
    check_apart(source, out)
    if out.is_file():
        raise FormatError(f"{out}: is a file; the output of a folder is a folder, so give another name")
    is_scan, scratch = _rule(kind, source, sensor), workspace_of(out) / TEMPORARY
    wanted = Chosen(kind, source, sequences)
    told = {"sensor": sensor and sensor.lower(), "sequences": list(wanted.names)}
    tree = Tree([], [], [], {name: value for name, value in told.items() if value})
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
    """Do it, and tell what is done after every scan. Scans that are there already are kept, unless `overwrite`."""
    run = describe_run(source, config, **tree.chosen)
    before = read_run(out / RUN)
    if before is not None and before != run and not overwrite:
        raise FormatError(
            f"{out}: was made in another way ({differences(before, run)}); remove it, give another name, or pass overwrite=True "
            "to make it anew"
        )
    if before == run and not overwrite and made_by_another(out / RUN):
        raise FormatError(
            f"{out}: was begun by another user, whose scans would be taken as they are; give another name, or pass overwrite=True "
            "to make it anew"
        )
    if before is None and out.is_dir():
        remove_stale(out)  # of a run that was killed before it had written anything
    if before is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FormatError(f"{out}: exists already and is not of this command; remove it, or give another name")
    _check_inside(tree, out)
    with workspace(out):
        out.mkdir(exist_ok=True)
        if overwrite:  # none of another making may stay, whatever ends this run
            for target in (*(scan.target for scan in tree.scans), *(target for _, target in tree.others), *tree.left_out):
                target.unlink(missing_ok=True)
        write_json(out / RUN, run)
        for path, target in tree.others:
            _carry_over(path, target)
        yield from _densify_missing(tree, config, engine)


def _check_inside(tree: Tree, out: Path) -> None:
    """No folder in `out` may be a link out of it: what is written, or removed to be made anew, would be somebody else's."""
    root = out.resolve()
    targets = (*(scan.target for scan in tree.scans), *(target for _, target in tree.others), *tree.left_out)
    for folder in dict.fromkeys(target.parent for target in targets):
        if root not in (folder.resolve(), *folder.resolve().parents):
            raise FormatError(f"{folder}: is a link that leads out of {out}; remove it, or choose another name for the output")


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


def densify_file(file: ScanFile, config: DensifyConfig) -> tuple[int, int, str]:
    """Read, densify and write one scan; how many points it had, and has, and why no more if none were added.

    What is unfinished lies apart from the tree: readers of datasets trip over files of other names among the scans.
    """
    unfinished = file.scratch / f"{secrets.token_hex(8)}{''.join(file.target.suffixes)}"
    try:
        counts, why = _densify_to(unfinished, file, config)
    except WriteError as error:  # its name there says nothing to anybody
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


# --- what is a scan

Rule = Callable[[Path], Layout | None]  # of a relative path; None where it is no scan


def _rule(kind: str, source: Path, sensor: str | None) -> Rule:
    if kind == "kitti":
        return lambda path: KITTI if _stored_as(path, source, "velodyne", ".bin") else None
    if kind == "mulran":
        return lambda path: MULRAN if _stored_as(path, source, "Ouster", ".bin") else None
    if kind == "poli":
        if not (source / MANIFEST).is_file():
            raise FormatError(f"{source}: no {MANIFEST} here; this folder is no dataset of poli's")
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
    """Whether a file is called by a number and lies in a folder of that name."""
    parent = path.parent.name or source.resolve().name
    return parent == folder and path.suffix == ending and path.stem.isascii() and path.stem.isdigit()


# --- all else


def _files(source: Path) -> Iterator[Path]:
    """Every file, by name; linked folders too, but none inside of itself."""
    for place, folders, names in os.walk(source, followlinks=True):
        above = {Path(place).resolve(), *Path(place).resolve().parents}
        folders[:] = sorted(f for f in folders if not (Path(place, f).is_symlink() and Path(place, f).resolve() in above))
        for name in sorted(names):
            if Path(place, name).is_file() and not (place == str(source) and name == RUN):
                yield Path(place, name)


def _carry_over(path: Path, target: Path) -> None:
    """Small files are copied: whoever edits one must not edit the original. Large ones are linked where that is possible."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.stat().st_size > _COPIED:
        with suppress(OSError):
            os.link(path.resolve(), target)
            return
    with atomic_path(target) as temporary:
        shutil.copy2(path, temporary)
