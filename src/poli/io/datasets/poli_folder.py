"""The poli dataset format.

    dataset.json        format, version, name, number of scans, and `about`: free-form metadata (sensor, seed, ...)
    scans/<stamp>.npz   compressed; points, fields of any shape (`normal` (N, 3), `label` (N,)), and the stamp
    poses.txt           one row per scan: stamp and 12 numbers, T_world_sensor, row-major
    measured_poses.txt  optional, in the same format: poses with measurement errors

The folder is written atomically.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.atomic import atomic_folder
from poli.io.datasets.files import FileDataset, numbered_files, read_or_empty
from poli.io.formats.numpy_files import write_npz
from poli.io.tables import read_json, write_json
from poli.io.trajectory_files import format_pose, read_stamped_poses
from poli.scan import Scan
from poli.se3 import check_pose

MANIFEST = "dataset.json"
_FORMAT, _VERSION = "poli-dataset", 1
_POSES, _MEASURED = "poses.txt", "measured_poses.txt"


@dataclass(frozen=True, eq=False, repr=False)
class FolderDataset(FileDataset):
    """A `FileDataset` with measured poses and metadata."""

    measured: np.ndarray | None = None  # (M, 4, 4) T_world_sensor
    about: Mapping[str, Any] = field(default_factory=dict)


def open_poli_folder(path: str | os.PathLike[str], min_range: float = 0.0) -> FolderDataset:
    """Open a dataset written by `write_folder`. Missing parts are an error."""
    folder = Path(path)
    manifest = _read_manifest(folder / MANIFEST)
    files = numbered_files(folder / "scans", ".npz") if manifest["scans"] else {}
    if len(files) != manifest["scans"]:
        raise FormatError(f"{folder}: {MANIFEST} lists {manifest['scans']} scans, found {len(files)}; the dataset is incomplete")
    stamps = tuple(files)
    measured = _read_poses(folder / _MEASURED, stamps) if (folder / _MEASURED).is_file() else None
    return FolderDataset(
        manifest["name"],
        tuple(files.values()),
        _read_deskewed if manifest["about"].get("deskewed") is True else read_or_empty,
        stamps,
        _read_poses(folder / _POSES, stamps),
        min_range=min_range,
        measured=measured,
        about=manifest["about"],
    )


def _read_deskewed(path: Path) -> Scan:
    return read_or_empty(path).without("time")  # otherwise odometry would deskew the points again


def write_folder(
    out: str | os.PathLike[str],
    name: str,
    scans: Iterable[Scan],
    poses: np.ndarray,  # (M, 4, 4) T_world_sensor
    measured: np.ndarray | None = None,  # (M, 4, 4)
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write stamped scans one by one; `about` must be serializable as JSON."""
    with atomic_folder(out) as temporary:
        (temporary / "scans").mkdir()
        stamps: list[int] = []
        for scan in scans:
            if scan.stamp is None or scan.stamp < 0:
                raise InputError(f"scan {len(stamps)} has stamp {scan.stamp}; expected nanoseconds, set it with Scan(stamp=...)")
            if (temporary / "scans" / f"{scan.stamp}.npz").exists():
                raise InputError(f"scan {len(stamps)} has the same stamp as an earlier scan, {scan.stamp}")
            write_npz(temporary / "scans" / f"{scan.stamp}.npz", scan, compressed=True)
            stamps.append(scan.stamp)
        _write_poses(temporary / _POSES, "poses", stamps, poses)
        if measured is not None:
            _write_poses(temporary / _MEASURED, "measured", stamps, measured)
        manifest = {"format": _FORMAT, "version": _VERSION, "name": name, "scans": len(stamps), "about": dict(about or {})}
        try:
            write_json(temporary / MANIFEST, manifest)
        except (TypeError, ValueError) as error:
            raise InputError(f"about: not serializable as JSON: {error}") from None


def _write_poses(path: Path, argument: str, stamps: list[int], poses: np.ndarray) -> None:
    if len(poses) != len(stamps):
        raise InputError(f"{argument}: {len(poses)} poses for {len(stamps)} scans")
    checked = [check_pose(T, f"{argument}[{i}]") for i, T in enumerate(poses)]
    path.write_text("".join(f"{stamp} {format_pose(T)}\n" for stamp, T in zip(stamps, checked, strict=True)))


def _read_poses(path: Path, stamps: tuple[int, ...]) -> np.ndarray:  # (M, 4, 4)
    known, poses = read_stamped_poses(path, 12)
    if tuple(known.tolist()) != stamps:
        odd = min(set(stamps) ^ set(known.tolist()))
        raise FormatError(f"{path}: {len(known)} poses for {len(stamps)} scans; the first difference is at stamp {odd}")
    return poses


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        raise FormatError(f"{path}: missing; the folder is not a poli dataset") from None
    if not isinstance(manifest, dict) or (manifest.get("format"), manifest.get("version")) != (_FORMAT, _VERSION):
        raise FormatError(f"{path}: not the manifest of a poli dataset of version {_VERSION}")
    for key, kind in {"name": str, "scans": int, "about": dict}.items():
        if type(manifest.get(key)) is not kind:
            raise FormatError(f"{path}: '{key}' is missing or has the wrong type")
    return manifest
