"""Stamped poses: parsing of trajectory files, and matching of poses to scans."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poli.errors import FormatError

_RIGID = 1e-3  # largest deviation from orthonormality; six digits cause 1e-6, so the margin is 1,000
_EXACT = 1e-9  # largest deviation up to which rotations are used as written


@dataclass(frozen=True, eq=False)
class StampedPoses:
    stamps: np.ndarray  # (K,) int64 nanoseconds, strictly ascending
    poses: np.ndarray  # (K, 4, 4)

    def nearest(self, stamps: np.ndarray, tolerance: int) -> np.ndarray:  # (M,) int64 -> (M,)
        """Return the row nearest to each of `stamps`, or -1 where no row is within `tolerance` nanoseconds."""
        if not len(self.stamps):
            return np.full(len(stamps), -1)
        after = np.searchsorted(self.stamps, stamps).clip(max=len(self.stamps) - 1)
        before = (after - 1).clip(min=0)
        rows = np.where(np.abs(stamps - self.stamps[before]) <= np.abs(self.stamps[after] - stamps), before, after)
        return np.where(np.abs(self.stamps[rows] - stamps) <= tolerance, rows, -1)


def read_stamped_poses(path: Path, columns: int, separator: str | None = None) -> StampedPoses:
    """Read rows of a stamp in nanoseconds and a pose: 12 numbers (3x4, row-major) or 7 (x y z qx qy qz qw), in any order.

    Stamps are parsed as integers. A repeated stamp must have the same pose.
    """
    stamps, values, lines = [], [], []
    for number, words in text_rows(path, separator):
        try:
            stamp = int(words[0])
            if not 0 <= stamp < 1 << 63:
                raise ValueError
        except ValueError:
            raise FormatError(f"{path}: line {number}: {words[0][:40]!r} is not a stamp in integer nanoseconds") from None
        stamps.append(stamp)
        values.append(finite_numbers(path, number, words[1:], columns))
        lines.append(number)
    array = np.array(values, np.float64).reshape(-1, columns)
    poses = poses_from_quaternions(array, path, lines) if columns == 7 else rigid_poses(array, path, lines)
    order = np.argsort(np.array(stamps, np.int64), kind="stable")
    sorted_stamps, poses = np.array(stamps, np.int64)[order], poses[order]
    again = np.flatnonzero(np.diff(sorted_stamps) == 0)
    differs = again[(poses[again] != poses[again + 1]).any(axis=(1, 2))]
    if len(differs):
        raise FormatError(f"{path}: {len(differs)} stamps have two different poses, first {sorted_stamps[differs[0]]}")
    kept = np.ones(len(stamps), bool)
    kept[again + 1] = False
    return StampedPoses(sorted_stamps[kept], poses[kept])


def read_pose_rows(path: Path, complete: bool = True) -> np.ndarray:  # (K, 4, 4)
    """Read rows of 12 numbers (KITTI), each a 3x4 pose, row-major."""
    rows = text_rows(path, None, complete)
    values = np.array([finite_numbers(path, number, words, 12) for number, words in rows], np.float64).reshape(-1, 12)
    return rigid_poses(values, path, [number for number, _ in rows])


def rigid_poses(values: np.ndarray, path: Path | str, lines: Sequence[int]) -> np.ndarray:  # (K, 12) -> (K, 4, 4)
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


def format_pose(T: np.ndarray) -> str:  # (4, 4)
    """Format the 3x4 part as 12 numbers, with enough digits to restore each exactly."""
    return " ".join(repr(float(v)) for v in T[:3].ravel())


def poses_from_quaternions(values: np.ndarray, path: Path, lines: Sequence[int]) -> np.ndarray:  # (K, 7) -> (K, 4, 4)
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


def text_rows(path: Path, separator: str | None, complete: bool = True) -> list[tuple[int, list[str]]]:
    """Return number and words of every line, without comments and empty lines.

    If not `complete`, a last line without a newline is skipped: its writer was interrupted.
    """
    try:
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read as text: {error}") from None
    if not complete:
        text = text[: text.rfind("\n") + 1]
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line.split(separator)) for number, line in lines if line and not line.startswith("#")]


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
