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
