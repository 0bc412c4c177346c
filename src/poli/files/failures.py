"""Turn operating system errors into a WriteError that names the file and a remedy."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from poli.errors import WriteError

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
