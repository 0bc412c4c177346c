"""Two clouds in one page of `poli view`: a registered pair, or a densified scan with its original."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from poli.cli.map_coordinates import above, map_offset, say_offset, shift, without_offset
from poli.cli.output import busy
from poli.cli.scan_files import is_pipe, naming, read_scan
from poli.cli.view_subject import Subject
from poli.errors import FormatError, InputError

if TYPE_CHECKING:
    from poli.show.estimated import Estimates

_POSE_NUMBERS = (12, 16)


def overlay_subject(source: Path, target: Path, pose: Path | None, how: Estimates) -> Subject:
    """Both clouds in the frame of the second; `pose` is T_target_source, as `poli register` writes it."""
    from poli.show.overlay import merged_panels

    if is_pipe(source) and is_pipe(target):
        raise InputError("-: standard input holds one cloud; give the other as a file")
    T = np.eye(4) if pose is None else read_pose(pose)
    names, paths = _names(source, target), (source, target)
    clouds, thin, fields = [], [], []
    offset = None
    with busy(f"ellipsoids of {source} and {target}"):
        for path, move in zip(paths, (T, np.eye(4)), strict=True):
            with naming(path):
                scan = read_scan(path)
                offset = map_offset(scan)
                say_offset(path, scan, offset, "centered at {offset}; the page shows the original coordinates")
                centered = without_offset(scan, offset)
                cloud = how.cloud(centered, str(path))
                place = move if offset is None else move @ shift(offset)
                clouds.append(centered.transform(place))
                thin.append(cloud)
                fields.append(how.field(cloud, above(offset), merged=offset is not None).transform(place))
    shown = merged_panels(clouds, thin, fields, names, how)
    moved = f"{names[0]} moved by {pose.name}" if pose is not None else "both in their own coordinates"
    return Subject(f"{names[0]} and {names[1]}", moved, lambda: shown, color="layer")


def densified_subject(dense: Path, original: Path) -> Subject:
    """A densified scan with its samples in another color than its originals."""
    from poli.show.overlay import densified_panels

    with busy(f"reading {dense}"):
        clouds = read_scan(dense), read_scan(original)
    shown = densified_panels(*clouds, (str(dense), str(original)))
    return Subject(dense.name, f"{len(clouds[0]):,} points", lambda: shown, color="layer")


def read_pose(path: Path, option: str = "--pose") -> np.ndarray:  # (4, 4)
    """Read the pose that `option` names: a 4x4 matrix as `poli register` writes it, or the 12 numbers of a KITTI pose."""
    from poli.se3 import check_pose

    if not path.is_file():
        raise FormatError(f"{option} {path}: no such file")
    try:
        numbers = np.array(path.read_text(encoding="utf-8").replace(",", " ").split(), dtype=np.float64)
    except (ValueError, UnicodeDecodeError):
        raise FormatError(f"{option} {path}: not a table of numbers; expected the 4x4 matrix of `poli register --out`") from None
    if len(numbers) not in _POSE_NUMBERS:
        raise FormatError(f"{option} {path}: {len(numbers)} numbers; expected a 4x4 or 3x4 matrix")
    T = np.eye(4)
    T.reshape(-1)[: len(numbers)] = numbers
    return check_pose(T, f"{option} {path}")


def _names(source: Path, target: Path) -> tuple[str, str]:
    """Short names of two files that differ: with their folders if the files have the same name."""
    names = tuple("standard input" if is_pipe(path) else path.name for path in (source, target))
    if names[0] != names[1]:
        return names[0], names[1]
    longer = tuple(f"{path.resolve().parent.name}/{path.name}" for path in (source, target))
    return longer if longer[0] != longer[1] else (f"{names[0]} (1)", f"{names[1]} (2)")  # type: ignore[return-value]
