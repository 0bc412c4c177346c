"""Arrays to files, every byte or an error.

numpy hands a file to C's buffered output, and closes that without looking: on a full disk, `tofile` and `np.save` leave a file that
is cut off, and say nothing. What is written here goes through Python's files, which look.
"""

from pathlib import Path
from typing import BinaryIO

import numpy as np


def write_array(path: Path, values: np.ndarray) -> None:
    """The bytes of an array, row by row."""
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(values).view(np.uint8).data)


class Written:
    """A file that numpy does not recognize as one, and therefore writes to."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write
