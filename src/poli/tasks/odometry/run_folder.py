"""The output folder of an odometry run: where it is, what belongs to it, and how an old run is removed."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from poli.errors import FormatError
from poli.files.failures import writing
from poli.files.tables import read_json
from poli.files.temporary import remove_stale, temporary_folder

LATEST = "latest"
_CONFIG, _SUMMARY, _MAP = "config.json", "summary.json", "map.ply"
_STARTED = ("poses_tum.txt", "poses_kitti.txt", "steps.csv")  # created before config.json
_FILES = (*_STARTED, _CONFIG, _SUMMARY, "truth_tum.txt", "truth_kitti.txt", "trajectory.png")


def check_free(folder: Path, overwrite: bool) -> None:
    """Raise if a run cannot be written to `folder`: it must be missing or empty, or with `overwrite` hold an earlier run."""
    if folder.is_dir():
        remove_stale(folder)  # left by a run that was killed before it wrote anything
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not is_run(folder):
        raise FormatError(f"{folder}: already exists and was not written by `poli odometry`; give another folder")
    if not overwrite:
        remedy = "give another folder, or pass {argument} to replace the run in it"
        raise FormatError(f"{folder}: already exists", argument="overwrite", value=True, remedy=remedy)


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run of odometry, or the empty files of one that was killed at its start."""
    try:
        about = read_json(folder / _CONFIG)
    except FileNotFoundError:
        entries = list(folder.iterdir())
        return all(entry.name in _STARTED and entry.is_file() and not entry.stat().st_size for entry in entries)
    except FormatError:
        return False
    return isinstance(about, dict) and {"poli", "data", "odometry"} <= set(about)


def remove_run(folder: Path) -> None:
    """Remove the files of a run. Other files in the folder stay."""
    own_map, _ = map_of_run(folder)
    # config.json last: until then, the folder is recognized as a run.
    names = [name for name in _FILES if name != _CONFIG]
    for path in [
        *(folder / name for name in names),
        *([own_map] if own_map and own_map.parent == folder else []),
        folder / _CONFIG,
    ]:
        path.unlink(missing_ok=True)


def map_of_run(folder: Path) -> tuple[Path | None, str]:
    """The map that summary.json names, or map.ply in the folder. If it is gone or another run has overwritten it: None, and a
    sentence that says so."""
    try:
        summary = read_json(folder / _SUMMARY)
    except (FormatError, FileNotFoundError):
        summary = None
    recorded = summary.get("map") if isinstance(summary, dict) else None
    if not isinstance(recorded, dict):
        return (folder / _MAP if (folder / _MAP).exists() else None), ""
    path = recorded.get("path")
    with suppress(OSError, ValueError):  # a damaged summary may hold any path
        found = folder / path if isinstance(path, str) else folder  # absolute paths replace the folder
        if found.is_file() and found.stat().st_size == recorded.get("bytes"):
            return found, ""
    return None, f"{folder}: its map, {path!s:.200}, was removed or overwritten"


def dated_folder(parent: Path) -> Path:
    """Create a folder named by date and time."""
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        for earlier in parent.iterdir():
            if earlier.is_dir() and not earlier.is_symlink():
                remove_stale(earlier)
        for number in range(1, 1000):  # runs that start in the same second
            folder = parent / (name if number == 1 else f"{name}_{number}")
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
    raise FormatError(f"{parent}: has a thousand runs of the same second; give another folder")


def link_latest(folder: Path) -> None:
    """Point the link `latest`, next to `folder`, to it. Do nothing if links are not supported or `latest` is not a link."""
    with suppress(OSError, NotImplementedError), temporary_folder(folder.parent) as private:
        link = private / LATEST
        link.symlink_to(folder.name, target_is_directory=True)
        if folder.with_name(LATEST).is_symlink() or not folder.with_name(LATEST).exists():
            os.replace(link, folder.with_name(LATEST))
