"""Write files and folders atomically: under a temporary name in the same folder, then rename.

A killed process cannot clean up. Temporary entries therefore have a recognizable name and are locked while in use, and the next
process that writes to the same folder removes those that nobody holds. `sole_user` gives a folder to one process at a time.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np

from poli.errors import FormatError, WriteError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where leftovers of killed processes stay
    fcntl = None

TEMPORARY = ".poli-"  # temporary names: this prefix, 16 hexadecimal digits, and the ending of the file
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_REMEDIES = {
    errno.EACCES: "; choose another folder, or change its permissions",
    errno.EPERM: "; choose another folder, or change its permissions",
    errno.EROFS: "; choose another folder",
    errno.EEXIST: "; choose another name",
    errno.EFBIG: "; raise the file size limit (ulimit -f), or choose another folder",
    **dict.fromkeys(_FULL, "; free some disk space, or choose another folder"),
}


def reason(error: OSError) -> str:
    """Return the system's message, followed by a remedy if one is known."""
    return f"{error.strerror or error}{_REMEDIES.get(error.errno or 0, '')}"


def is_of_the_disk(error: OSError) -> bool:
    """Whether the disk is full or not writable, as opposed to an error in the input."""
    return error.errno in (*_FULL, errno.EFBIG, errno.EROFS)


@contextmanager
def writing(path: str | os.PathLike[str], meanwhile: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Raise WriteError for `path` if an OSError occurs inside. Errors that name another file, such as an input, pass through.

    `meanwhile` is the folder that holds the file until it is complete.
    """
    try:
        yield
    except OSError as error:
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else TEMPORARY
        own = (os.fspath(path), *(() if meanwhile is None else (os.fspath(meanwhile),)))
        if TEMPORARY not in name and not any(name == place or name.startswith(place + os.sep) for place in own):
            raise
        raise WriteError(f"{path}: cannot be written: {reason(error)}") from None


@contextmanager
def temporary_folder(folder: Path | None = None) -> Iterator[Path]:
    """Yield the path of a new folder that only this user can enter, in `folder` or the system's temporary folder."""
    with _temporary(Path(gettempdir()) if folder is None else folder) as path:
        yield path


@contextmanager
def _temporary(folder: Path, ending: str | None = None) -> Iterator[Path]:
    """Yield the path of a new folder, or of a new, empty file with this ending. It is removed on exit unless it has been moved."""
    _tidy_once(os.path.realpath(folder))
    while True:
        path = folder / f"{TEMPORARY}{secrets.token_hex(8)}{ending or ''}"
        path.mkdir(mode=0o700) if ending is None else path.touch(exist_ok=False)
        descriptor = None
        with suppress(OSError):  # another process may remove it before it is locked; some file systems have no locks
            descriptor = None if fcntl is None else _lock(path, wait=True)
        if path.exists():
            break
        if descriptor is not None:
            os.close(descriptor)
    try:
        yield path
    finally:
        _remove(path)
        if descriptor is not None:
            os.close(descriptor)


def _lock(path: Path, wait: bool) -> int:
    """Lock a file or folder until the descriptor is closed or the process ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove(path: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove_stale(folder: Path) -> None:
    """Remove the temporary files that killed processes left in `folder`."""
    if fcntl is None:
        return
    for path in folder.glob(f"{TEMPORARY}{'[0-9a-f]' * 16}*"):
        with suppress(OSError):
            descriptor = _lock(path, wait=False)
            _remove(path)
            os.close(descriptor)


@lru_cache(maxsize=4096)  # a run may write a hundred thousand files to one folder
def _tidy_once(folder: str) -> None:
    remove_stale(Path(folder))


@contextmanager
def sole_user(folder: Path, refusal: str) -> Iterator[None]:
    """Lock `folder`, which must exist, for this process. Raise FormatError(refusal) if another process holds it.

    The system releases the lock when the process ends, even if it is killed. The folder itself is locked: no file is left behind.
    """
    descriptor = None
    try:
        descriptor = None if fcntl is None else _lock(folder, wait=False)
    except BlockingIOError:
        raise FormatError(refusal) from None
    except OSError:
        warnings.warn(f"{folder}: this file system has no locks; make sure no other process writes here", stacklevel=4)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def check_new_file(path: str | os.PathLike[str]) -> None:
    """Raise the errors that `atomic_path` would raise. Call it before a long computation."""
    final = Path(path)
    if final.is_dir():
        raise FormatError(f"{final}: this is a folder; give the name of a file")
    if final.exists() and not final.is_file():  # the rename would replace the device by a file
        raise FormatError(f"{final}: is a device or a pipe; give the name of a file")
    if not final.parent.is_dir():
        raise FormatError(f"{final}: the folder {final.parent} does not exist; create it first")


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """Raise the errors that `atomic_folder` would raise."""
    final = Path(path)
    if final.is_dir():
        remove_stale(final)  # leftovers of a killed run do not make a folder non-empty
    if final.is_file() or (final.is_dir() and any(final.iterdir())):
        raise FormatError(f"{final}: already exists; remove it first, or give another name")
    if not final.is_dir():
        check_new_file(final)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to. On success it replaces `path`, on failure it is removed."""
    final = Path(path)
    check_new_file(final)
    # Keep the suffix: some writers choose the format by it.
    with writing(final), _temporary(final.parent, final.suffix) as temporary:
        mode = stat.S_IMODE(temporary.stat().st_mode)  # of the user's umask
        yield temporary
        temporary.chmod(mode)  # safetensors replaces the file by one of mode 0600
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
            if final.exists():  # empty
                final.rmdir()
            temporary.rename(final)
        except FormatError as error:  # replace the temporary name, which means nothing to the user
            raise FormatError(str(error).replace(str(temporary), str(final))) from None


def refuse_overwriting(out: Path, *inputs: Path) -> None:
    """Raise if `out` is one of the inputs: the same path, or a symbolic or hard link to the same file or folder."""
    if any(same_file(out, source) for source in inputs):
        raise FormatError(f"{out}: input and output are the same; choose another output name")


def same_file(one: Path, other: Path) -> bool:
    """Whether both are the same file or folder."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one does not exist yet, or its name is invalid
        return os.path.realpath(one) == os.path.realpath(other)


def write_array(path: Path, values: np.ndarray) -> None:
    """Write the bytes of an array, row by row. numpy's `tofile` ignores errors on close: a full disk would truncate the file."""
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(values).view(np.uint8).data)
