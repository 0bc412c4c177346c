"""Temporary files and folders that are cleaned up by the next run at the latest.

A killed process cannot clean up. Temporary files therefore have a recognizable name and are locked while in use. The next process
that writes to the same folder removes entries that have such a name, belong to this user, and are not locked.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir

from poli.files.failures import TEMPORARY
from poli.files.locks import CLOSE_ON_EXEC, NO_FOLLOW, fcntl, is_still, try_lock

_NAME = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{16}}(\..*)?", re.DOTALL)
_LONGEST_ENDING = 32  # bytes; a name may have 255


@contextmanager
def temporary_file(folder: Path, ending: str = "") -> Iterator[Path]:
    """Yield the path of a new, empty file. It is removed on exit unless it has been moved."""
    _tidy_once(os.path.realpath(folder))
    path, descriptor = _new_file(folder, ending if len(os.fsencode(ending)) <= _LONGEST_ENDING else "")
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def temporary_folder(folder: Path | None = None) -> Iterator[Path]:
    """Yield the path of a new folder that only this user can enter, in `folder` or the system's temporary folder."""
    folder = Path(gettempdir()) if folder is None else folder
    _tidy_once(os.path.realpath(folder))
    path, descriptor = _new_folder(folder)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def discard_folder(path: Path) -> None:
    """Remove a folder. It is renamed first, so a partly removed folder is never mistaken for a complete one."""
    discarded = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    with suppress(OSError):
        path.rename(discarded)
        shutil.rmtree(discarded, ignore_errors=True)


def remove_stale(folder: Path) -> None:
    """Remove the temporary files that killed processes left in `folder`."""
    if fcntl is None:  # without locks, files in use cannot be recognized
        return
    try:
        with os.scandir(folder) as entries:
            found = [Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for path in found:
        with suppress(OSError):
            _remove_if_stale(path)


@lru_cache(maxsize=4096)  # a run may write a hundred thousand files to one folder
def _tidy_once(folder: str) -> None:
    remove_stale(Path(folder))


def _new_file(folder: Path, ending: str) -> tuple[Path, int | None]:
    while True:
        path = folder / f"{TEMPORARY}{secrets.token_hex(8)}{ending}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC, 0o666)
        if fcntl is None:  # Windows cannot move an open file
            os.close(descriptor)
            return path, None
        try_lock(descriptor, wait=True)
        if is_still(path, descriptor):  # no other process removed it as stale before it was locked
            return path, descriptor
        os.close(descriptor)


def _new_folder(folder: Path) -> tuple[Path, int | None]:
    while True:
        path = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
        path.mkdir(mode=0o700)
        if fcntl is None:
            return path, None
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW | CLOSE_ON_EXEC)
            try_lock(descriptor, wait=True)
            if is_still(path, descriptor):
                return path, descriptor
            os.close(descriptor)


def _remove_if_stale(path: Path) -> None:
    kind = path.lstat().st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return
    access = os.O_RDONLY if stat.S_ISDIR(kind) else os.O_RDWR
    descriptor = os.open(path, access | NO_FOLLOW | os.O_NONBLOCK | CLOSE_ON_EXEC)
    try:
        ours = os.fstat(descriptor).st_uid == os.geteuid()
        if ours and try_lock(descriptor) and is_still(path, descriptor):
            if stat.S_ISDIR(kind):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
    finally:
        os.close(descriptor)
