"""Point cloud files. `read` and `write` choose the format by the file's ending."""

import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from poli.data.formats.bin_layouts import bin_layout
from poli.data.formats.kitti_bin import read_kitti_bin, read_nuscenes_bin, write_kitti_bin, write_nuscenes_bin
from poli.data.formats.las import read_las, write_las
from poli.data.formats.numpy_files import read_npy, read_npz, write_npy, write_npz
from poli.data.formats.pcd import read_pcd, write_pcd
from poli.data.formats.records import read_ply_scan, write_ply_scan
from poli.data.formats.text import read_text, write_text
from poli.errors import FormatError, InputError, did_you_mean
from poli.pointcloud2 import PointCloud2, is_pointcloud2
from poli.scan import Scan, ScanLike


@dataclass(frozen=True)
class Format:
    name: str
    endings: tuple[str, ...]
    read: Callable[[Path], Scan]
    write: Callable[[Path, Scan], None]
    magic: bytes = b""  # how such a file begins


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
    """Read a point cloud file with all its fields, or a PointCloud2 message of ROS, its points' times as `time` in seconds.

    Non-finite points and zero returns are dropped, and counted in `Scan.dropped`. `format` overrules the file's ending:
    nuscenes, kitti, pcd, ply, text, npy, npz or las. Whether a .bin file is KITTI's or nuScenes' is seen from its values.
    """
    if is_pointcloud2(path):
        from poli.data.datasets.pointcloud2 import scan_from_message

        if format is not None:
            raise FormatError(f"format={format!r} is for files; this is a PointCloud2 message")
        return scan_from_message(path)
    path = Path(cast("str | os.PathLike[str]", path))  # a TypeGuard tells mypy only what a thing is, not what it is not
    if not path.is_file():
        raise FormatError(f"{path}: {'this is a folder, not a file' if path.is_dir() else 'no such file'}")
    chosen = _choose(path, format)
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        raise FormatError(f"{path}: the file is empty")
    for other in FORMATS:
        if other.magic and start.startswith(other.magic) and other is not chosen:
            raise FormatError(
                f"{path}: read as {chosen.name}, but it begins like a {other.name} file; rename it or pass format='{other.name}'"
            )
    if format is None and chosen.name == "kitti":
        chosen = _choose(path, bin_layout(path))
    try:
        return chosen.read(path).clean()
    except InputError as error:  # well-formed, but no scan: columns of different length, names that clash
        raise FormatError(f"{path}: {error}") from None


def write(scan: ScanLike, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a scan. A format that cannot hold one of its fields raises instead of losing it; nothing is left half-written.

    The stamp is kept by .npz alone.
    """
    path = Path(path)
    _choose(path, format).write(path, Scan.of(scan))


def check_ending(path: str | os.PathLike[str], format: str | None = None) -> None:
    """An error that `write` would raise, for those who have much to do before they write."""
    _choose(Path(path), format)


def format_of(path: str | os.PathLike[str]) -> str:
    """The format that `read` takes a file for."""
    name = _choose(Path(path), None).name
    return bin_layout(Path(path)) if name == "kitti" else name


def sniff(path: str | os.PathLike[str]) -> str:
    """The format of a file whose name does not tell, by its content. What says nothing of itself is a .bin file."""
    with Path(path).open("rb") as file:
        start = file.read(4096)
    for known in FORMATS:
        if known.magic and start.startswith(known.magic):
            return known.name
    if b"FIELDS" in start and b"VERSION" in start:  # the first line of a PCD file is a comment, which some leave out
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
    raise FormatError(f"{path}: unknown ending; expected one of {endings}, or pass format=")
