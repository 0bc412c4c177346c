"""One process per folder. The system releases the lock when the process ends, even if it is killed."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from poli.errors import FormatError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# Windows has none of these.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
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
    """Lock `folder`, which must exist. Raise FormatError(refusal) if another process holds it.

    The folder itself is locked, so no lock file can be left behind.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | CLOSE_ON_EXEC)
    try:
        held = try_lock(descriptor)
        if held is False:
            raise FormatError(refusal)
        if held is None:
            warnings.warn(f"{folder}: this file system has no locks; make sure no other process writes here", stacklevel=4)
        yield
    finally:
        os.close(descriptor)
