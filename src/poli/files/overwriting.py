"""No command writes over what it reads, whatever name it is called by."""

import os
import stat
from pathlib import Path

from poli.errors import FormatError

Place = Path | int  # of a stream, its descriptor


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
