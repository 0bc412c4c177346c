"""The user's cache of compiled code.

Anyone who can write to the folder can run code as this user, so it is used only if private (mode 0700, owned by the user, no link).
Each access opens the folder, checks the open descriptor and reaches files through it, so it cannot be replaced in between."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

_ENDING = ".poli"
_LONGEST_UNUSED = 180 * 86400.0  # seconds
_SAFE_PLATFORM = os.name == "posix"  # on other systems, user folders are private by default


def folder() -> Path | None:
    """Return the folder: in NUMBA_CACHE_DIR if set, else in the user's cache; None for a user without a home folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(chosen or Path.home() / ".cache") / "poli" / "kernels"
    except RuntimeError:
        return None


def name_of(*key: object) -> str:
    return sha256(repr(key).encode()).hexdigest()[:40] + _ENDING


def opener(name: str) -> Callable[[], BinaryIO] | None:
    """Return a function that opens a file of the cache, or None if the file is missing or the folder is not private."""
    try:
        _open_file(name).close()
    except OSError:
        return None
    return partial(_open_file, name)


def keep(name: str, content: bytes) -> bool:
    """Write a file atomically, because other processes may be reading. Return False if it cannot be written."""
    try:
        with _opened(create=True) as at:
            temporary = f".{token_hex(8)}{_ENDING}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            try:
                with os.fdopen(os.open(at(temporary)[0], flags, 0o600, **at(temporary)[1]), "wb") as file:
                    file.write(content)
                _rename(at, temporary, name)
            except BaseException:
                with suppress(OSError):
                    os.unlink(at(temporary)[0], **at(temporary)[1])
                raise
        _forget_old()
    except OSError:
        return False
    return True


def trouble() -> str | None:
    """Return why the folder cannot be used, or None if it can."""
    place = folder()
    if place is None:
        return "this user has no home folder"
    try:
        with _opened(create=True):
            return None
    except OSError as error:
        return f"{place} {error.strerror or error}"


@contextmanager
def _opened(create: bool = False) -> Any:
    """Yield a function from a file name to its path and, as keyword arguments, the descriptor that the path is relative to."""
    place = folder()
    if place is None:
        raise FileNotFoundError(2, "this user has no home folder")
    if create:
        for part in (place.parent, place):
            part.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                part.mkdir(mode=0o700)
    if not _SAFE_PLATFORM:
        yield lambda name: (str(place / name), {})
        return
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise PermissionError(1, "belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise PermissionError(1, f"is open to others (mode {stat.S_IMODE(found.st_mode):o}; expected 700)")
        yield lambda name: (name, {"dir_fd": descriptor})
    finally:
        os.close(descriptor)


def _open_file(name: str) -> BinaryIO:
    with _opened() as at:
        path, where = at(name)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0), **where)
    file = os.fdopen(descriptor, "rb")
    found = os.fstat(descriptor)
    if _SAFE_PLATFORM and (not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022):
        file.close()
        raise PermissionError(1, "belongs to another user, or is writable by others")
    return file


def _rename(at: Callable[[str], tuple[str, dict]], old: str, new: str) -> None:
    (source, where), (target, _) = at(old), at(new)
    if where:
        os.replace(source, target, src_dir_fd=where["dir_fd"], dst_dir_fd=where["dir_fd"])
    else:
        os.replace(source, target)


def _forget_old() -> None:
    """Remove files written more than half a year ago, and temporary files of killed processes."""
    now = time.time()
    with _opened() as at:
        directory = at("")[1].get("dir_fd", folder())
        for name in os.listdir(directory):
            path, where = at(name)
            age = now - os.stat(path, follow_symlinks=False, **where).st_mtime
            if name.endswith(_ENDING) and (age > _LONGEST_UNUSED or (name.startswith(".") and age > 3600.0)):
                os.unlink(path, **where)
