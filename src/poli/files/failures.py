"""Why a file cannot be written, in an error that names it and says what to do."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from poli.errors import WriteError

TEMPORARY = ".poli-"  # what temporary names begin with
_ROOM = "; make room, or choose another place"
_REMEDIES = {
    errno.EACCES: "; choose another place, or change its permissions",
    errno.EPERM: "; choose another place, or change its permissions",
    errno.EROFS: "; choose another place",
    errno.EEXIST: "; choose another name",
    errno.ENOSPC: _ROOM,
    getattr(errno, "EDQUOT", errno.ENOSPC): _ROOM,
    errno.EFBIG: "; raise the limit on the size of files (ulimit -f), or choose another place",
}


def reason(error: OSError) -> str:
    """What the system says, and a remedy where one is known."""
    if error.errno is None:  # numpy's `tofile` knows only that it failed
        return f"{error}; is the disk full?"
    return f"{error.strerror or error}{_REMEDIES.get(error.errno, '')}"


@contextmanager
def writing(path: str | os.PathLike[str], meanwhile: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Errors of the disk inside are errors of `path`, but for those of other files, such as one that was to be read.

    `meanwhile` is a folder where it lies until it is whole.
    """
    try:
        yield
    except OSError as error:
        own = (os.fspath(path), *(() if meanwhile is None else (os.fspath(meanwhile),)))
        if error.filename is not None and not _means(error.filename, own):
            raise
        raise WriteError(f"{path}: cannot be written: {reason(error)}") from None


def _means(named: object, own: tuple[str, ...]) -> bool:
    """Whether an error is of one of these, of something in them, or of what has a temporary name."""
    if not isinstance(named, str | bytes):
        return True
    name = os.fsdecode(named)
    return any(name == path or name.startswith(path + os.sep) for path in own) or any(
        part.startswith(TEMPORARY) for part in name.split(os.sep)
    )


def is_of_the_disk(error: OSError) -> bool:
    """Whether it says that there is no room, or no writing here: no fault of what was read."""
    return error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG, errno.EROFS)
