"""Files named by frame number, and the stamps of frames, as in KITTI raw."""

from pathlib import Path

import numpy as np

from poli.errors import FormatError


def numbered(folder: Path, ending: str) -> dict[int, Path]:
    """Return the files of a folder by frame number."""
    found: dict[int, Path] = {}
    for path in sorted(folder.glob(f"*{ending}")):
        if not (path.stem.isascii() and path.stem.isdigit() and len(path.stem) < 18):
            raise FormatError(f"{path}: expected a file named by its frame number; move it elsewhere")
        twin = found.setdefault(int(path.stem), path)
        if twin != path:
            raise FormatError(f"{path}: same frame number as {twin.name}; remove one of the two")
    if not found:
        raise FormatError(f"{folder}: the folder has no {ending} files")
    return found


def frame_stamps(path: Path, frames: list[int]) -> list[int] | None:
    """Read the stamp of each frame in nanoseconds since 1970; None if there is no file.

    Line i belongs to frame i, whether its file is there or not; if there are as many lines as files, lines belong to files.
    """
    if not path.is_file():
        return None
    lines = path.read_text("ascii", errors="replace").rstrip().splitlines()
    rows = frames if len(lines) > frames[-1] else list(range(len(frames)))
    if rows[-1] >= len(lines) or (rows is not frames and len(lines) != len(frames)):
        raise FormatError(
            f"{path}: {len(lines)} times for {len(frames)} files up to frame {frames[-1]}; one of the two is incomplete"
        )
    stamps = [_nanoseconds(path, row, lines[row]) for row in rows]
    for before, row in enumerate(rows[1:]):
        if stamps[before + 1] <= stamps[before]:
            raise FormatError(f"{path}: line {row + 1} ({lines[row][:40]}) is not later than that of the frame before")
    return stamps


def _nanoseconds(path: Path, row: int, text: str) -> int:
    """Convert "2011-09-26 13:02:25.951199337"."""
    whole, _, part = text.strip().partition(".")
    try:
        if part and not (part.isascii() and part.isdigit() and len(part) <= 9):
            raise ValueError
        stamp = np.datetime64(whole.replace(" ", "T", 1), "s")
        if np.isnat(stamp) or len(whole) != 19:
            raise ValueError
    except ValueError:
        raise FormatError(f"{path}: line {row + 1} ({text[:40]}) is not a time; expected 2011-09-26 13:02:25.951199337") from None
    return int(stamp.astype(np.int64)) * 10**9 + int(part.ljust(9, "0") or "0")
