"""A file appears whole or not at all: write under a temporary name beside it, then rename."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poli.errors import FormatError


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; on success it takes the place of `path`, on failure it is removed."""
    final = Path(path)
    if final.is_dir():
        raise FormatError(f"{final}: this is a folder; give the name of a file")
    if not final.parent.is_dir():
        raise FormatError(f"{final}: the folder {final.parent} does not exist; create it first")
    # Short, so that any legal name has room for it; with the ending, because some writers choose what to write by it.
    temporary = final.with_name(f".{secrets.token_hex(8)}{final.suffix}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        temporary.replace(final)
    except OSError as error:
        raise FormatError(f"{final}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary.exists():
            temporary.unlink()
