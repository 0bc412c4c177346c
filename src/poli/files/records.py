"""Arrays and records to files, every byte or an error.

numpy hands a file to C's buffered output, and closes that without looking: on a full disk, `tofile` and `np.save` leave a file that
is cut off, and say nothing. What is written here goes through Python's files, which look.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

_FORMATS = {"f2": "%.5g", "f4": "%.9g", "f8": "%.17g"}


def write_array(path: Path, values: np.ndarray) -> None:
    """The bytes of an array, row by row."""
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(values).view(np.uint8).data)


class Written:
    """A file that numpy does not recognize as one, and therefore writes to."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


def write_text_records(file: BinaryIO, records: np.ndarray, separator: str) -> None:
    """One line a record, with as many digits as bring every number back exactly."""
    names = records.dtype.names or ()
    line = separator.join(_FORMATS.get(records.dtype[n].str[1:], "%d") for n in names) + "\n"
    columns = [records[n].tolist() for n in names]
    file.write("".join(line % row for row in zip(*columns, strict=True)).encode("ascii"))
