"""A file appears whole or not at all: write under a temporary name beside it, then rename."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poli.errors import FormatError


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; on success it takes the place of `path`, on failure it is removed."""
    final = Path(path)
    if not final.parent.is_dir():
        raise FormatError(f"{final}: the folder {final.parent} does not exist; create it first")
    # The suffix stays, because some writers choose what to write by it.
    handle, name = tempfile.mkstemp(prefix=f".{final.stem}.", suffix=final.suffix, dir=final.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes it private; a finished file is as open as any other
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
