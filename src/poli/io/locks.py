"""Locks that the system releases when the process ends, even if it is killed.

The folder itself is locked, so no lock file can be left behind or replaced by a link. Where that is impossible (Windows, some
network file systems), a file in the folder is locked instead.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from poli.errors import FormatError

fcntl: Any
msvcrt: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
try:
    import msvcrt
except ImportError:  # everywhere else
    msvcrt = None

# Windows has none of these.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
FOLDER = getattr(os, "O_DIRECTORY", 0)
CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_LOCK_FILE = ".poli-lock"
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)


def try_lock(descriptor: int, wait: bool = False) -> bool | None:
    """Try to lock. Return whether this process holds the lock, or None if the system does not support such locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        return False if error.errno in _TAKEN else None
    return True


def is_still(path: Path, descriptor: int) -> bool:
    """Whether the path still names the opened file or folder, and is not a link."""
    try:
        there, here = path.lstat(), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


@contextmanager
def sole_user(folder: Path, refusal: str) -> Iterator[None]:
    """Lock `folder`, which must exist. Raise FormatError(refusal) if another process holds it."""
    if fcntl is None:
        with locked_file(folder / _LOCK_FILE, refusal):
            yield
        return
    descriptor = os.open(folder, os.O_RDONLY | FOLDER | CLOSE_ON_EXEC)
    try:
        held = try_lock(descriptor)
        if held is False:
            raise FormatError(refusal)
        if held:
            yield
        else:
            with locked_file(folder / _LOCK_FILE, refusal):
                yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_file(path: Path, refusal: str) -> Iterator[None]:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | CLOSE_ON_EXEC, 0o600)
        try:
            _lock_record(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno in _TAKEN:
                raise FormatError(refusal) from None
            warnings.warn(f"{path.parent}: this file system has no locks; make sure no other process writes here", stacklevel=4)
            yield
            return
        if is_still(path, descriptor) or fcntl is None:
            break
        os.close(descriptor)  # another process has just removed it
    try:
        yield
    finally:
        if fcntl is not None:
            path.unlink(missing_ok=True)  # before releasing the lock: a waiting process then sees a new file and retries
        os.close(descriptor)
        if fcntl is None:
            with suppress(OSError):
                path.unlink()


def _lock_record(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif msvcrt is not None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)


# --- A folder with a predictable name that only one user can write to and only one process uses at a time.


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
