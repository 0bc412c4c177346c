"""Read the output folder of `poli odometry`, for viewers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poli.data.formats import read
from poli.data.trajectory_files import read_kitti
from poli.ellipsoids import Ellipsoids
from poli.errors import FormatError, InputError
from poli.files.tables import read_json
from poli.scan import Scan
from poli.show.panel import Track
from poli.tasks.odometry.run_folder import map_of_run

_FARTHEST = 1e9  # meters, maximum coordinate of a pose
_POSES, _TRUTH, _CONFIG = "poses_kitti.txt", "truth_kitti.txt", "config.json"


@dataclass(frozen=True, eq=False)
class OdometryRun:
    folder: Path
    poses: np.ndarray  # (M, 4, 4) T_world_scan
    truth: np.ndarray | None  # (M, 4, 4)
    map: Ellipsoids | Scan | None  # the map of the drive: ellipsoids or points
    config: dict[str, Any]
    remarks: tuple[str, ...] = ()  # what is missing, and why

    @property
    def data(self) -> dict[str, Any]:
        """The input data of the run: name, path, dataset, options, first."""
        return self.config["data"]

    @property
    def tracks(self) -> tuple[Track, ...]:
        tracks = (Track(self.poses[:, :3, 3], "estimate"),)
        return tracks if self.truth is None else (*tracks, Track(self.truth[:, :3, 3], "truth"))

    @property
    def length(self) -> float:
        """Length of the estimated path in meters."""
        return float(np.linalg.norm(np.diff(self.poses[:, :3, 3], axis=0), axis=1).sum())


def is_odometry_run(folder: Path) -> bool:
    return (folder / _POSES).is_file() and (folder / _CONFIG).is_file()


def read_odometry_run(folder: Path) -> OdometryRun:
    poses = _read_poses(folder / _POSES)  # (M, 4, 4)
    if not len(poses):
        raise InputError(f"{folder}: no poses to show; the run ended before its first scan was processed")
    truth = _read_poses(folder / _TRUTH) if (folder / _TRUTH).is_file() else None
    where, missing = map_of_run(folder)
    return OdometryRun(folder, poses, truth, _read_map(where), _read_config(folder / _CONFIG), (missing,) if missing else ())


def _read_map(path: Path | None) -> Ellipsoids | Scan | None:
    if path is None or not path.is_file():
        return None
    scan = read(path, "ply")
    found = Ellipsoids.load(path) if "cov_xx" in scan.fields else scan.clean()
    return found if len(found) else None


def _read_poses(path: Path) -> np.ndarray:  # (M, 4, 4)
    poses = read_kitti(path, complete=False)
    far = np.flatnonzero(np.abs(poses[:, :3, 3]).max(axis=1, initial=0.0) > _FARTHEST)
    if len(far):
        raise FormatError(f"{path}: pose {far[0]} is {np.abs(poses[far[0], :3, 3]).max():.3g} m away; the file is damaged")
    return poses


def _read_config(path: Path) -> dict[str, Any]:
    config = read_json(path)
    kinds = {"path": str, "dataset": str, "options": dict, "first": int, "name": str}
    data = config.get("data") if isinstance(config, dict) else None
    if not isinstance(data, dict) or not all(isinstance(data.get(key), kind) for key, kind in kinds.items()):
        raise FormatError(f"{path}: not written by `poli odometry`: 'data' is missing or incomplete")
    if isinstance(data["first"], bool) or not 0 <= data["first"] < 1 << 53:
        raise FormatError(f"{path}: 'first' is {data['first']!r:.40}; expected the index of a scan")
    for key, value in data["options"].items():
        if not isinstance(value, bool | int | float | str):
            raise FormatError(f"{path}: option {key!r} is {value!r:.40}; expected a string or a number")
    if "\0" in data["path"]:
        raise FormatError(f"{path}: 'path' is {data['path']!r:.80}, which is not a valid path")
    return config
