"""Trajectory files: TUM (`stamp x y z qx qy qz qw`, in seconds and meters) and KITTI (3x4 matrices, row-major)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from io import FileIO
from pathlib import Path
from typing import Literal, Self

import numpy as np

from poli.errors import FormatError, InputError, WriteError
from poli.io.atomic import reason
from poli.options import whole_number
from poli.se3 import check_pose, quaternion

_SECOND = 10**9  # nanoseconds
_STAMPS = 1 << 63  # stamps are int64
_RIGID = 1e-3  # largest deviation from orthonormality; six digits cause 1e-6, so the margin is 1,000
_EXACT = 1e-9  # largest deviation up to which rotations are used as written


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
        text = format_pose(T) if self._format == "kitti" else _format_tum(T, stamp)
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
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_tum(path: str | os.PathLike[str], complete: bool = True) -> tuple[np.ndarray, np.ndarray]:  # (M,) int64, (M, 4, 4)
    """Read the stamps, exact to the nanosecond, and the poses, in file order.

    `complete=False` reads a file whose last line may be truncated: a last line without a newline is skipped.
    """
    return _read(Path(path), 7, _seconds, None, complete)


def read_kitti(path: str | os.PathLike[str], complete: bool = True) -> np.ndarray:  # (M, 4, 4)
    """Read the poses in file order; `complete` as in `read_tum`."""
    return _read(Path(path), 12, None, None, complete)[1]


def read_stamped_poses(path: Path, columns: int, separator: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Read stamps (K,), ascending, and poses (K, 4, 4) from rows of a stamp in integer nanoseconds and a pose, in any order.

    A pose has 12 columns (3x4, row-major) or 7 (x y z qx qy qz qw). A repeated stamp must have the same pose.
    """
    stamps, poses = _read(path, columns, _whole, separator)
    unique, first, of = np.unique(stamps, return_index=True, return_inverse=True)
    differs = np.flatnonzero((poses != poses[first[of]]).any(axis=(1, 2)))
    if len(differs):
        raise FormatError(f"{path}: {len(differs)} stamps have two different poses, first {stamps[differs[0]]}")
    return unique, poses[first]


def _read(
    path: Path, columns: int, stamp: Callable[[str], int] | None, separator: str | None, complete: bool = True
) -> tuple[np.ndarray, np.ndarray]:  # (M,) int64, (M, 4, 4)
    """Read lines of an optional stamp, converted by `stamp`, and a pose. Comments and empty lines are skipped."""
    try:
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read as text: {error}") from None
    if not complete:  # the writer was interrupted
        text = text[: text.rfind("\n") + 1]
    stamps, values, lines = [], [], []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip().split(separator)
        if not words or not words[0] or words[0].startswith("#"):
            continue
        if stamp is not None:
            try:
                stamps.append(stamp(words.pop(0)))
            except ValueError as error:
                raise FormatError(f"{path}: line {number}: {error}") from None
        values.append(finite_numbers(path, number, words, columns))
        lines.append(number)
    poses = (_poses if columns == 7 else rigid_poses)(np.array(values).reshape(-1, columns), path, lines)
    return np.array(stamps, np.int64), poses


def _seconds(word: str) -> int:
    if (stamp := nanoseconds(word)) < 0:
        raise ValueError(f"{word[:40]!r} is not a stamp in seconds")
    return stamp


def _whole(word: str) -> int:
    if word.isascii() and word.isdigit() and len(word) < 20 and int(word) < _STAMPS:
        return int(word)
    raise ValueError(f"{word[:40]!r} is not a stamp in integer nanoseconds")


def rigid_poses(values: np.ndarray, path: object, lines: Sequence[int]) -> np.ndarray:  # (K, 12) -> (K, 4, 4)
    """Convert 3x4 matrices to rigid motions. Rotations rounded in the file are replaced by the nearest rotation."""
    poses = np.tile(np.eye(4), (len(values), 1, 1))
    poses[:, :3] = values.reshape(-1, 3, 4)
    R = poses[:, :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):  # huge numbers are rejected below
        off = np.abs(np.swapaxes(R, 1, 2) @ R - np.eye(3)).max(axis=(1, 2))
        bad = np.flatnonzero(~(off <= _RIGID) | ~(np.linalg.det(R) >= 0))
    if len(bad):
        raise FormatError(f"{path}: line {lines[bad[0]]} is not a rigid motion (rotation not orthonormal); the file is damaged")
    inexact = off > _EXACT
    u, _, vt = np.linalg.svd(R[inexact])
    R[inexact] = u @ vt
    return poses


def _poses(values: np.ndarray, path: object, lines: Sequence[int]) -> np.ndarray:  # (K, 7) -> (K, 4, 4)
    """Convert rows x y z qx qy qz qw to rigid motions."""
    length = np.linalg.norm(values[:, 3:], axis=1)
    bad = np.flatnonzero(np.abs(length - 1.0) > _RIGID)
    if len(bad):
        raise FormatError(f"{path}: line {lines[bad[0]]}: the quaternion has length {length[bad[0]]:.4g}; the file is damaged")
    x, y, z, w = (values[:, 3:] / length[:, None]).T
    poses = np.tile(np.eye(4), (len(values), 1, 1))
    poses[:, 0, :3] = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], axis=1)
    poses[:, 1, :3] = np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], axis=1)
    poses[:, 2, :3] = np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], axis=1)
    poses[:, :3, 3] = values[:, :3]
    return poses


def format_pose(T: np.ndarray) -> str:  # (4, 4)
    """Format the 3x4 part as 12 numbers, with enough digits to restore each exactly."""
    return " ".join(repr(float(v)) for v in T[:3].ravel())


def finite_numbers(path: Path, line: int, words: list[str], columns: int) -> list[float]:
    """Convert the words of a line to the numbers of a pose."""
    if len(words) != columns:
        raise FormatError(f"{path}: line {line} has {len(words)} pose values, expected {columns}; the file is truncated or damaged")
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [np.nan]
    if not np.isfinite(numbers).all():
        raise FormatError(f"{path}: line {line} has a value that is not a finite number")
    return numbers


def nanoseconds(word: str) -> int:
    """Convert decimal seconds exactly. Raise ValueError if it is not a number or too large for int64."""
    try:
        stamp = Decimal(word).scaleb(9)
        if abs(stamp) < _STAMPS:  # before a number with a huge exponent is expanded
            return min(int(stamp.to_integral_value()), _STAMPS - 1)
    except ArithmeticError:
        pass
    raise ValueError(f"{word[:40]!r} is not a stamp in seconds")


def _format_tum(T: np.ndarray, stamp: int | None) -> str:  # (4, 4)
    if stamp is None:
        raise InputError("stamp is missing; the TUM format requires one per pose, in nanoseconds")
    stamp = whole_number(stamp, "stamp", 0)
    if stamp >= _STAMPS:
        raise InputError(f"stamp is {stamp}; expected nanoseconds below 2^63")
    values = " ".join(repr(float(v)) for v in (*T[:3, 3], *quaternion(T[:3, :3])))
    return f"{stamp // _SECOND}.{stamp % _SECOND:09d} {values}"  # integers: float64 has too few digits
