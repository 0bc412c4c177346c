"""Records as lines of text."""

from typing import BinaryIO

import numpy as np

_FORMATS = {"f2": "%.5g", "f4": "%.9g", "f8": "%.17g"}


def write_text_records(file: BinaryIO, records: np.ndarray, separator: str) -> None:
    """One line a record, with as many digits as bring every number back exactly."""
    names = records.dtype.names or ()
    line = separator.join(_FORMATS.get(records.dtype[n].str[1:], "%d") for n in names) + "\n"
    columns = [records[n].tolist() for n in names]
    file.write("".join(line % row for row in zip(*columns, strict=True)).encode("ascii"))
