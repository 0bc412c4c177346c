"""Trajectories as text: TUM's format (`stamp x y z qx qy qz qw`, in seconds and meters) and KITTI's (3x4 numbers, row by row)."""

from __future__ import annotations

import os
from contextlib import suppress
from decimal import Decimal
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import numpy as np

from poli.data.datasets.stamped_poses import finite_numbers, format_pose, poses_from_quaternions, read_pose_rows, text_rows
from poli.errors import FormatError, InputError, WriteError
from poli.files.failures import reason
from poli.se3 import check_pose, quaternion
from poli.validation import whole_number

_NANOSECONDS = 10**9
_STAMPS = 1 << 63  # they are int64


class TrajectoryWriter:
    """Writes poses as they come.

    A pose is one line and one write to the operating system, with nothing held back in this process. So whatever ends the run,
    the file has every pose that `append` returned from, and ends with a whole line; a write that fails half way (a full disk) is
    taken back. Only if the machine itself goes down the last line may be cut: read such a file with `complete=False`.
    """

    def __init__(self, path: str | os.PathLike[str], format: Literal["tum", "kitti"], replace: bool = False) -> None:
        """`replace`: an existing file is emptied at once; without, it is an error."""
        if format not in ("tum", "kitti"):
            raise InputError(f'format is {format!r}; expected "tum" or "kitti"')
        self.path = Path(path)
        self._format = format
        self._length = 0  # bytes of whole lines
        try:
            self._file = FileIO(self.path, "w" if replace else "x")
        except FileExistsError:
            raise FormatError(f"{self.path}: exists already; give another name, or replace=True to write it anew") from None
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def append(self, T: np.ndarray, stamp: int | None = None) -> None:  # (4, 4), nanoseconds
        """Write the pose of the next scan. TUM's format needs its `stamp`, KITTI's has no place for it."""
        if self._file.closed:
            raise InputError(f"{self.path}: the writer is closed; append before, or inside its `with` block")
        T = check_pose(T, "T")
        text = format_pose(T) if self._format == "kitti" else f"{_format_stamp(stamp)} {_format_quaternion_pose(T)}"
        line = f"{text}\n".encode("ascii")
        try:
            if self._file.write(line) != len(line):
                raise OSError("only a part of a line could be written")
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
    """Stamps in nanoseconds, exact to the last, and poses, in the order of the file.

    `complete=False` reads a file whose last line may have been cut off: without a newline at its end, that line is left out.
    """
    path = Path(path)
    stamps, values, lines = [], [], []
    for number, words in text_rows(path, None, complete):
        stamps.append(_parse_stamp(words[0], path, number))
        values.append(finite_numbers(path, number, words[1:], 7))
        lines.append(number)
    return np.array(stamps, np.int64), poses_from_quaternions(np.array(values, np.float64).reshape(-1, 7), path, lines)


def read_kitti(path: str | os.PathLike[str], complete: bool = True) -> np.ndarray:  # (M, 4, 4)
    """Poses in the order of the file; `complete` as in `read_tum`."""
    return read_pose_rows(Path(path), complete)


def _format_stamp(stamp: int | None) -> str:
    if stamp is None:
        raise InputError("stamp is missing; the TUM format needs one a pose, in nanoseconds")
    seconds, nanoseconds = divmod(whole_number(stamp, "stamp", 0), _NANOSECONDS)  # integers: a float has too few digits
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
        raise FormatError(f"{path}: line {line}: {word[:40]!r} is no stamp in seconds") from None


def _format_quaternion_pose(T: np.ndarray) -> str:  # (4, 4)
    return " ".join(repr(float(v)) for v in (*T[:3, 3], *quaternion(T[:3, :3])))
