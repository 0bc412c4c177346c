"""Trajectory files: TUM (`stamp x y z qx qy qz qw`, in seconds and meters) and KITTI (3x4 matrices, row-major)."""

from __future__ import annotations

import os
from contextlib import suppress
from decimal import Decimal
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import numpy as np

from poli.errors import FormatError, InputError, WriteError
from poli.io.atomic import reason
from poli.io.datasets.stamped import finite_numbers, format_pose, poses_from_quaternions, read_pose_rows, text_rows
from poli.options import whole_number
from poli.se3 import check_pose, quaternion

_NANOSECONDS = 10**9
_STAMPS = 1 << 63  # stamps are int64


class TrajectoryWriter:
    """Writes poses one by one.

    Each pose is one line and one unbuffered write. However the process ends, the file contains every pose for which `append`
    returned, and its last line is complete; a partial write (disk full) is rolled back. Only a crash of the machine can truncate
    the last line: read such a file with `complete=False`.
    """

    def __init__(self, path: str | os.PathLike[str], format: Literal["tum", "kitti"], replace: bool = False) -> None:
        """Open the file. An existing file is truncated if `replace`, and an error otherwise."""
        if format not in ("tum", "kitti"):
            raise InputError(f'format is {format!r}; expected "tum" or "kitti"')
        self.path = Path(path)
        self._format = format
        self._length = 0  # bytes of whole lines
        try:
            self._file = FileIO(self.path, "w" if replace else "x")
        except FileExistsError:
            raise FormatError(f"{self.path}: already exists; choose another name, or pass replace=True to overwrite it") from None
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def append(self, T: np.ndarray, stamp: int | None = None) -> None:  # (4, 4), nanoseconds
        """Write the pose of the next scan. The TUM format requires `stamp`; the KITTI format ignores it."""
        if self._file.closed:
            raise InputError(f"{self.path}: the writer is closed; call append before close, or inside the `with` block")
        T = check_pose(T, "T")
        text = format_pose(T) if self._format == "kitti" else f"{_format_stamp(stamp)} {_format_quaternion_pose(T)}"
        line = f"{text}\n".encode("ascii")
        try:
            if self._file.write(line) != len(line):
                raise OSError("the line was only partly written")
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._length)
                self._file.seek(self._length)
            raise WriteError(f"{self.path}: cannot be written: {reason(error)}") from None
        self._length += len(line)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def read_tum(path: str | os.PathLike[str], complete: bool = True) -> tuple[np.ndarray, np.ndarray]:  # (M,) int64, (M, 4, 4)
    """Read the stamps, exact to the nanosecond, and the poses, in file order.

    `complete=False` reads a file whose last line may be truncated: a last line without a newline is skipped.
    """
    path = Path(path)
    stamps, values, lines = [], [], []
    for number, words in text_rows(path, None, complete):
        stamps.append(_parse_stamp(words[0], path, number))
        values.append(finite_numbers(path, number, words[1:], 7))
        lines.append(number)
    return np.array(stamps, np.int64), poses_from_quaternions(np.array(values, np.float64).reshape(-1, 7), path, lines)


def read_kitti(path: str | os.PathLike[str], complete: bool = True) -> np.ndarray:  # (M, 4, 4)
    """Read the poses in file order; `complete` as in `read_tum`."""
    return read_pose_rows(Path(path), complete)


def _format_stamp(stamp: int | None) -> str:
    if stamp is None:
        raise InputError("stamp is missing; the TUM format requires one per pose, in nanoseconds")
    seconds, nanoseconds = divmod(whole_number(stamp, "stamp", 0), _NANOSECONDS)  # integers: float64 has too few digits
    if seconds * _NANOSECONDS + nanoseconds >= _STAMPS:
        raise InputError(f"stamp is {stamp!r}; expected nanoseconds below 2^63")
    return f"{seconds}.{nanoseconds:09d}"


def _parse_stamp(word: str, path: Path, line: int) -> int:
    try:
        stamp = Decimal(word).scaleb(9)
        if not 0 <= stamp < _STAMPS:
            raise ValueError
        return min(int(stamp.to_integral_value()), _STAMPS - 1)
    except (ArithmeticError, ValueError):
        raise FormatError(f"{path}: line {line}: {word[:40]!r} is not a stamp in seconds") from None


def _format_quaternion_pose(T: np.ndarray) -> str:  # (4, 4)
    return " ".join(repr(float(v)) for v in (*T[:3, 3], *quaternion(T[:3, :3])))
