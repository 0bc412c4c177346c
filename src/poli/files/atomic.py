"""Write files and folders atomically: under a temporary name in the same folder, then rename.

Also refuse to overwrite an input, even through a symbolic or hard link.
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

Place = Path | int  # a path, or the descriptor of a stream


def check_new_file(path: str | os.PathLike[str]) -> None:
    """Raise the errors that `atomic_path` would raise. Call it before a long computation."""
    final = Path(path)
    if final.is_dir():
        raise FormatError(f"{final}: this is a folder; give the name of a file")
    if final.exists() and not final.is_file():  # the rename would replace the device by a file
        raise FormatError(f"{final}: is a device or a pipe; give the name of a file")
    _check_parent(final)


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """Raise the errors that `atomic_folder` would raise."""
    final = Path(path)
    if final.is_dir():
        remove_stale(final)  # leftovers of a killed run do not make a folder non-empty
    if final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise FormatError(f"{final}: already exists; remove it first, or give another name")
    _check_parent(final)


def _check_parent(final: Path) -> None:
    if not final.parent.is_dir():
        raise FormatError(f"{final}: the folder {final.parent} does not exist; create it first")


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to. On success it replaces `path`, on failure it is removed."""
    final = Path(path)
    check_new_file(final)
    # Keep the suffix: some writers choose the format by it.
    with writing(final), temporary_file(final.parent, final.suffix) as temporary:
        mode = stat.S_IMODE(temporary.stat().st_mode)  # of the user's umask
        yield temporary
        if stat.S_IMODE(temporary.stat().st_mode) != mode:  # a library has replaced the file by one with another mode, often 0600
            temporary.chmod(mode)
        temporary.replace(final)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder to write to. On success it becomes `path`, which must be missing or empty; on failure it is removed."""
    final = Path(path)
    check_new_folder(final)
    with writing(final), temporary_folder(final.parent) as private:
        # Only this user can enter `private`; a folder created in it has the mode of the user's umask.
        temporary = private / "new"
        try:
            temporary.mkdir()
            yield temporary
            if final.exists():
                final.rmdir()
            temporary.rename(final)
        except FormatError as error:  # replace the temporary name, which means nothing to the user
            raise FormatError(str(error).replace(str(temporary), str(final))) from None


def refuse_overwriting(out: Place, *inputs: Place, name: object = None) -> None:
    """Raise if `out` is one of the inputs: the same path, or a symbolic or hard link to the same file or folder.

    The error calls the output `name`, or by its path if `name` is None.
    """
    for source in inputs:
        if same_file(out, source):
            raise FormatError(f"{out if name is None else name}: input and output are the same; choose another output name")


def same_file(one: Place, other: Place) -> bool:
    try:
        first, second = os.stat(one), os.stat(other)
    except (OSError, ValueError):  # one does not exist yet, or its name is invalid
        return isinstance(one, Path) and isinstance(other, Path) and os.path.realpath(one) == os.path.realpath(other)
    kept = stat.S_ISREG(first.st_mode) or stat.S_ISDIR(first.st_mode)  # a terminal may be both input and output
    return kept and os.path.samestat(first, second)
