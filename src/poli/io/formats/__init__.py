"""Point cloud files. `read` and `write` choose the format by file extension."""

import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from poli.errors import FormatError, InputError, did_you_mean
from poli.io.formats.bin import bin_layout, read_kitti_bin, read_nuscenes_bin, write_kitti_bin, write_nuscenes_bin
from poli.io.formats.las import read_las, write_las
from poli.io.formats.numpy_files import read_npy, read_npz, read_ply_scan, write_npy, write_npz, write_ply_scan
from poli.io.formats.pcd import read_pcd, write_pcd
from poli.io.formats.text import read_text, write_text
from poli.io.pointcloud2 import PointCloud2, is_pointcloud2
from poli.scan import Scan, ScanLike


@dataclass(frozen=True)
class Format:
    """A file format of scans."""

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path], Scan]
    write: Callable[[Path, Scan], None]
    magic: bytes = b""  # the first bytes of such a file


FORMATS = (
    Format("nuscenes", (".pcd.bin",), read_nuscenes_bin, write_nuscenes_bin),
    Format("kitti", (".bin",), read_kitti_bin, write_kitti_bin),
    Format("pcd", (".pcd",), read_pcd, write_pcd, b"# .PCD"),
    Format("ply", (".ply",), read_ply_scan, write_ply_scan, b"ply"),
    Format("text", (".xyz", ".csv", ".txt"), read_text, write_text),
    Format("npy", (".npy",), read_npy, write_npy, b"\x93NUMPY"),
    Format("npz", (".npz",), read_npz, write_npz, b"PK\x03\x04"),
    Format("las", (".las", ".laz"), read_las, write_las, b"LASF"),
)


def read(path: str | os.PathLike[str] | PointCloud2, format: str | None = None) -> Scan:
    """Read a point cloud file with all its fields, or convert a ROS PointCloud2 message (point times as `time`, in seconds).

    Non-finite points and zero returns are dropped and counted in `Scan.dropped`. `format` overrides the file extension:
    nuscenes, kitti, pcd, ply, text, npy, npz or las. KITTI and nuScenes .bin files are distinguished by their values.
    """
    if is_pointcloud2(path):
        from poli.io.messages import scan_from_message

        if format is not None:
            raise FormatError(f"format={format!r} applies to files, but the input is a PointCloud2 message")
        return scan_from_message(path)
    path = Path(cast("str | os.PathLike[str]", path))  # a TypeGuard does not narrow the negative case for mypy
    if not path.is_file():
        raise FormatError(f"{path}: {'is a folder; expected a file' if path.is_dir() else 'no such file'}")
    chosen = _choose(path, format)
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        raise FormatError(f"{path}: the file is empty")
    other = next((known.name for known in FORMATS if known.magic and start.startswith(known.magic)), chosen.name)
    if other != chosen.name:
        what = f"read as {chosen.name}, but its first bytes are those of a {other} file"
        raise FormatError(f"{path}: {what}; rename it or pass format={other!r}")
    if format is None and chosen.name == "kitti":
        chosen = _choose(path, bin_layout(path))
    try:
        return chosen.read(path).clean()
    except InputError as error:  # well-formed but not a scan: columns of different lengths, duplicate names
        raise FormatError(f"{path}: {error}") from None


def write(scan: ScanLike, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a scan atomically. Raises FormatError if the format cannot store one of its fields.

    Only .npz stores the stamp.
    """
    path = Path(path)
    _choose(path, format).write(path, Scan.of(scan))


def check_ending(path: str | os.PathLike[str], format: str | None = None) -> None:
    """Raise the error that `write` would raise for this name, before a long computation."""
    _choose(Path(path), format)


def output_format(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Return the format that `write` would choose."""
    return _choose(Path(path), format).name


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that `read` would choose for a file."""
    name = _choose(Path(path), None).name
    return bin_layout(Path(path)) if name == "kitti" else name


def sniff(path: str | os.PathLike[str]) -> str:
    """Detect the format of a file from its content. A file without a recognizable header is treated as .bin."""
    with Path(path).open("rb") as file:
        start = file.read(4096)
    for known in FORMATS:
        if known.magic and start.startswith(known.magic):
            return known.name
    if b"FIELDS" in start and b"VERSION" in start:  # some PCD files lack the usual comment in the first line
        return "pcd"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return bin_layout(Path(path))
    return bin_layout(Path(path)) if b"\0" in start else "text"


def _choose(path: Path, name: str | None) -> Format:
    for candidate in FORMATS:
        if candidate.name == name or (name is None and path.name.lower().endswith(candidate.endings)):
            return candidate
    if name is not None:
        known = [f.name for f in FORMATS]
        raise FormatError(f"unknown format {name!r}; choose from {', '.join(known)}{did_you_mean(name, known)}")
    endings = " ".join(e for f in FORMATS for e in f.endings)
    raise FormatError(f"{path}: unknown file extension; expected one of {endings}; rename it, or name its format")
