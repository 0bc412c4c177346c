"""A folder with a predictable name that only one user can write to and only one process uses at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from poli.errors import FormatError
from poli.files.locks import CLOSE_ON_EXEC, FOLDER, NO_FOLLOW, fcntl, is_still, locked_file, try_lock

_OTHERS_WRITE = 0o022
LOCK_FILE = ".poli-lock"


@contextmanager
def private_folder(folder: Path, refusal: str, make: bool = True) -> Iterator[None]:
    """Create `folder`, or take it over from a process that ended, and lock it. Other processes get FormatError(refusal).

    Links, folders of other users, and folders that others can write to are refused: their contents cannot be trusted, and deleting
    in them could delete someone else's files.
    """
    if fcntl is None:
        _make(folder, make)
        if folder.is_symlink() or not folder.is_dir():
            raise FormatError(f"{folder}: is not a folder created by poli; remove it, or choose another output name")
        with locked_file(folder / LOCK_FILE, refusal):
            yield
        return
    descriptor = _hold(folder, refusal, make)
    try:
        yield
    finally:
        os.close(descriptor)


def made_by_another(path: Path) -> bool:
    """Whether a file or folder belongs to another user. False on systems without user ids."""
    return hasattr(os, "geteuid") and path.stat().st_uid != os.geteuid()


def _make(folder: Path, make: bool) -> None:
    if make:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def _hold(folder: Path, refusal: str, make: bool) -> int:
    while True:
        _make(folder, make)
        descriptor = _open(folder, make)
        if descriptor is None:
            continue
        try:
            _check(folder, descriptor)
            if try_lock(descriptor) is False:
                raise FormatError(refusal)
            if is_still(folder, descriptor):  # the previous holder may just have removed it
                os.fchmod(descriptor, 0o700)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(folder: Path, make: bool) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | FOLDER | NO_FOLLOW | CLOSE_ON_EXEC)
    except FileNotFoundError:
        if not make:
            raise
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EACCES):
            raise
        what = "belongs to another user" if error.errno == errno.EACCES else "is not a folder, or is a link"
        raise FormatError(f"{folder}: {what}; remove it, or choose another output name") from None


def _check(folder: Path, descriptor: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise FormatError(f"{folder}: belongs to another user; remove it, or choose another output name")
    if found.st_mode & _OTHERS_WRITE:
        raise FormatError(f"{folder}: is writable by other users; remove it, or choose another output name")
