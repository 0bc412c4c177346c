"""Write arrays and records to files, and raise if any byte cannot be written.

numpy writes through C's buffered output and ignores errors on close: on a full disk, `tofile` and `np.save` silently leave a
truncated file. The functions here write through Python files, which report such errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

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
