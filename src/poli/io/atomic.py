"""Write files and folders atomically: under a temporary name in the same folder, then rename.

Also refuse to overwrite an input, even through a symbolic or hard link.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir
from typing import BinaryIO

import numpy as np

from poli.errors import FormatError, WriteError
from poli.io.locks import CLOSE_ON_EXEC, NO_FOLLOW, fcntl, is_still, try_lock

# --- Turn operating system errors into a WriteError that names the file and a remedy.


TEMPORARY = ".poli-"  # prefix of temporary names
_ROOM = "; free some disk space, or choose another folder"
_REMEDIES = {
    errno.EACCES: "; choose another folder, or change its permissions",
    errno.EPERM: "; choose another folder, or change its permissions",
    errno.EROFS: "; choose another folder",
    errno.EEXIST: "; choose another name",
    errno.ENOSPC: _ROOM,
    getattr(errno, "EDQUOT", errno.ENOSPC): _ROOM,
    errno.EFBIG: "; raise the file size limit (ulimit -f), or choose another folder",
}


def reason(error: OSError) -> str:
    """Return the system's message, followed by a remedy if one is known."""
    if error.errno is None:  # numpy's `tofile` does not report why it failed
        return f"{error}; is the disk full?"
    return f"{error.strerror or error}{_REMEDIES.get(error.errno, '')}"


@contextmanager
def writing(path: str | os.PathLike[str], meanwhile: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Raise WriteError for `path` if an OSError occurs inside. Errors that name another file, such as an input, pass through.

    `meanwhile` is the folder that holds the file until it is complete.
    """
    try:
        yield
    except OSError as error:
        own = (os.fspath(path), *(() if meanwhile is None else (os.fspath(meanwhile),)))
        if error.filename is not None and not _means(error.filename, own):
            raise
        raise WriteError(f"{path}: cannot be written: {reason(error)}") from None


def _means(named: object, own: tuple[str, ...]) -> bool:
    """Whether the name in an error is one of these paths, is inside one, or is a temporary name."""
    if not isinstance(named, str | bytes):
        return True
    name = os.fsdecode(named)
    return any(name == path or name.startswith(path + os.sep) for path in own) or any(
        part.startswith(TEMPORARY) for part in name.split(os.sep)
    )


def is_of_the_disk(error: OSError) -> bool:
    """Whether the disk is full or not writable, as opposed to an error in the input."""
    return error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG, errno.EROFS)


# --- Temporary files and folders that are cleaned up by the next run at the latest.
#
# A killed process cannot clean up. Temporary files therefore have a recognizable name and are locked while in use. The next
# process
# that writes to the same folder removes entries that have such a name, belong to this user, and are not locked.


_NAME = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{16}}(\..*)?", re.DOTALL)
_LONGEST_ENDING = 32  # bytes; a name may have 255


@contextmanager
def temporary_file(folder: Path, ending: str = "") -> Iterator[Path]:
    """Yield the path of a new, empty file. It is removed on exit unless it has been moved."""
    _tidy_once(os.path.realpath(folder))
    path, descriptor = _new_file(folder, ending if len(os.fsencode(ending)) <= _LONGEST_ENDING else "")
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def temporary_folder(folder: Path | None = None) -> Iterator[Path]:
    """Yield the path of a new folder that only this user can enter, in `folder` or the system's temporary folder."""
    folder = Path(gettempdir()) if folder is None else folder
    _tidy_once(os.path.realpath(folder))
    path, descriptor = _new_folder(folder)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def discard_folder(path: Path) -> None:
    """Remove a folder. It is renamed first, so a partly removed folder is never mistaken for a complete one."""
    discarded = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    with suppress(OSError):
        path.rename(discarded)
        shutil.rmtree(discarded, ignore_errors=True)


def remove_stale(folder: Path) -> None:
    """Remove the temporary files that killed processes left in `folder`."""
    if fcntl is None:  # without locks, files in use cannot be recognized
        return
    try:
        with os.scandir(folder) as entries:
            found = [Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for path in found:
        with suppress(OSError):
            _remove_if_stale(path)


@lru_cache(maxsize=4096)  # a run may write a hundred thousand files to one folder
def _tidy_once(folder: str) -> None:
    remove_stale(Path(folder))


def _new_file(folder: Path, ending: str) -> tuple[Path, int | None]:
    while True:
        path = folder / f"{TEMPORARY}{secrets.token_hex(8)}{ending}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC, 0o666)
        if fcntl is None:  # Windows cannot move an open file
            os.close(descriptor)
            return path, None
        try_lock(descriptor, wait=True)
        if is_still(path, descriptor):  # no other process removed it as stale before it was locked
            return path, descriptor
        os.close(descriptor)


def _new_folder(folder: Path) -> tuple[Path, int | None]:
    while True:
        path = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
        path.mkdir(mode=0o700)
        if fcntl is None:
            return path, None
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW | CLOSE_ON_EXEC)
            try_lock(descriptor, wait=True)
            if is_still(path, descriptor):
                return path, descriptor
            os.close(descriptor)


def _remove_if_stale(path: Path) -> None:
    kind = path.lstat().st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return
    access = os.O_RDONLY if stat.S_ISDIR(kind) else os.O_RDWR
    descriptor = os.open(path, access | NO_FOLLOW | os.O_NONBLOCK | CLOSE_ON_EXEC)
    try:
        ours = os.fstat(descriptor).st_uid == os.geteuid()
        if ours and try_lock(descriptor) and is_still(path, descriptor):
            if stat.S_ISDIR(kind):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
    finally:
        os.close(descriptor)


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


# --- Write arrays and records to files, and raise if any byte cannot be written.
#
# numpy writes through C's buffered output and ignores errors on close: on a full disk, `tofile` and `np.save` silently leave a
# truncated file. The functions here write through Python files, which report such errors.


_FORMATS = {"f2": "%.5g", "f4": "%.9g", "f8": "%.17g"}


def write_array(path: Path, values: np.ndarray) -> None:
    """Write the bytes of an array, row by row."""
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(values).view(np.uint8).data)


class Written:
    """Wrap a file so that numpy does not recognize it and calls its `write`."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


def write_text_records(file: BinaryIO, records: np.ndarray, separator: str) -> None:
    """Write one line per record, with enough digits to restore every number exactly."""
    names = records.dtype.names or ()
    line = separator.join(_FORMATS.get(records.dtype[n].str[1:], "%d") for n in names) + "\n"
    columns = [records[n].tolist() for n in names]
    file.write("".join(line % row for row in zip(*columns, strict=True)).encode("ascii"))
