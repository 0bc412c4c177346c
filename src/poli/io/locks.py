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
except ImportError:  # Windows, where nothing is locked
    fcntl = None


@contextmanager
def sole_user(folder: Path, refusal: str) -> Iterator[None]:
    """Lock `folder`, which must exist. Raise FormatError(refusal) if another process holds it.

    The folder itself is locked, so no lock file can be left behind.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK):
                raise FormatError(refusal) from None
            warnings.warn(f"{folder}: this file system has no locks; make sure no other process writes here", stacklevel=4)
        yield
    finally:
        os.close(descriptor)
