"""Temporary files and folders that do not outlive their use by more than one run.

A process that is killed cannot tidy up. So whatever is temporary has a name of ours and is locked while it is used, and the next
process that writes to the same place removes what has such a name, belongs to this user, and is locked by nobody.
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
_LONGEST_ENDING = 32  # bytes; a name has room for 255


@contextmanager
def temporary_file(folder: Path, ending: str = "") -> Iterator[Path]:
    """The path of a new, empty file. Afterwards it is removed, if it has not been moved."""
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
    """The path of a new folder that only this user can enter, in `folder` or where the system keeps such things."""
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
    """Remove a folder. It gets a temporary name first, so that one which is removed by half is not taken for a whole one."""
    discarded = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    with suppress(OSError):
        path.rename(discarded)
        shutil.rmtree(discarded, ignore_errors=True)


def remove_stale(folder: Path) -> None:
    """Remove what processes that were killed have left in `folder`."""
    if fcntl is None:  # nothing tells there what is still used
        return
    try:
        with os.scandir(folder) as entries:
            found = [Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for path in found:
        with suppress(OSError):
            _remove_if_stale(path)


@lru_cache(maxsize=4096)  # a folder may have a hundred thousand files, and be written to as many times
def _tidy_once(folder: str) -> None:
    remove_stale(Path(folder))


def _new_file(folder: Path, ending: str) -> tuple[Path, int | None]:
    while True:
        path = folder / f"{TEMPORARY}{secrets.token_hex(8)}{ending}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC, 0o666)
        if fcntl is None:  # Windows moves no file that is open
            os.close(descriptor)
            return path, None
        try_lock(descriptor, wait=True)
        if is_still(path, descriptor):  # nobody took it for stale before it was locked
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
