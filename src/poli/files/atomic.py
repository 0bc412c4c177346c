"""A file or folder appears whole or not at all: write under a temporary name beside it, then rename."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poli.errors import FormatError


def check_new_file(path: str | os.PathLike[str]) -> None:
    """What `atomic_path` would refuse, for those who have much to do before they write."""
    final = Path(path)
    if final.is_dir():
        raise FormatError(f"{final}: this is a folder; give the name of a file")
    _check_parent(final)


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """What `atomic_folder` would refuse."""
    final = Path(path)
    if final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise FormatError(f"{final}: exists already; remove it first, or give another name")
    _check_parent(final)


def _check_parent(final: Path) -> None:
    if not final.parent.is_dir():
        raise FormatError(f"{final}: the folder {final.parent} does not exist; create it first")


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; on success it takes the place of `path`, on failure it is removed."""
    final = Path(path)
    check_new_file(final)
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


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a new folder to write to; on success it becomes `path`, which must not exist or be empty; on failure it is removed."""
    final = Path(path)
    check_new_folder(final)
    temporary = final.with_name(f".{secrets.token_hex(8)}")
    try:
        temporary.mkdir()
        yield temporary
        if final.exists():
            final.rmdir()
        temporary.rename(final)
    except FormatError as error:  # of a file in it, whose name nobody knows
        raise FormatError(str(error).replace(str(temporary), str(final))) from None
    except OSError as error:
        raise FormatError(f"{final}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
