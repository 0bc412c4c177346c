"""A file or folder appears whole or not at all: write under a temporary name beside it, then rename.

And no command writes over what it reads, whatever name it is called by.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poli.errors import FormatError
from poli.files.failures import writing
from poli.files.temporary import remove_stale, temporary_file, temporary_folder

Place = Path | int  # of a stream, its descriptor


def check_new_file(path: str | os.PathLike[str]) -> None:
    """What `atomic_path` would refuse, for those who have much to do before they write."""
    final = Path(path)
    if final.is_dir():
        raise FormatError(f"{final}: this is a folder; give the name of a file")
    if final.exists() and not final.is_file():  # a new file would take the place of the device
        raise FormatError(f"{final}: is a device or a pipe; give the name of a file")
    _check_parent(final)


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """What `atomic_folder` would refuse."""
    final = Path(path)
    if final.is_dir():
        remove_stale(final)  # of a run that was killed: the folder is as good as empty
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
    # With the ending, because some writers choose what to write by it.
    with writing(final), temporary_file(final.parent, final.suffix) as temporary:
        yield temporary
        temporary.replace(final)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a new folder to write to; on success it becomes `path`, which must not exist or be empty; on failure it is removed."""
    final = Path(path)
    check_new_folder(final)
    with writing(final), temporary_folder(final.parent) as private:
        # Only this user can enter `private`; what is made in it has the mode that the user's umask asks for.
        temporary = private / "new"
        try:
            temporary.mkdir()
            yield temporary
            if final.exists():
                final.rmdir()
            temporary.rename(final)
        except FormatError as error:  # of a file in it, whose name nobody knows
            raise FormatError(str(error).replace(str(temporary), str(final))) from None


def refuse_overwriting(out: Place, *inputs: Place, name: object = None) -> None:
    """Raise if `out` is one of the inputs: the same path, or a symbolic or hard link to the same file or folder.

    `name` is what the error calls it, where that is not its path.
    """
    for source in inputs:
        if same_file(out, source):
            raise FormatError(f"{out if name is None else name}: input and output are the same; give another name for the output")


def same_file(one: Place, other: Place) -> bool:
    try:
        first, second = os.stat(one), os.stat(other)
    except (OSError, ValueError):  # one is not there yet, or cannot be
        return isinstance(one, Path) and isinstance(other, Path) and os.path.realpath(one) == os.path.realpath(other)
    kept = stat.S_ISREG(first.st_mode) or stat.S_ISDIR(first.st_mode)  # a terminal may well be both
    return kept and os.path.samestat(first, second)
