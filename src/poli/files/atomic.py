"""A file or folder appears whole or not at all: write under a temporary name beside it, then rename."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poli.errors import FormatError
from poli.files.failures import writing
from poli.files.temporary import remove_stale, temporary_file, temporary_folder


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
