"""Poses of KITTI raw's GPS/IMU unit: `oxts/data/NNNNNNNNNN.txt`, one packet per frame, and its mount on the car."""

from pathlib import Path

import numpy as np

from poli.data.datasets.frames import frame_stamps, numbered
from poli.data.datasets.stamped_poses import finite_numbers, rigid_poses
from poli.errors import FormatError
from poli.se3 import exp, inverse, log

_EARTH = 6_378_137.0  # meters: radius of the sphere of the projection, as in the raw data's development kit
_LONGEST = 500_000_000  # nanoseconds between two packets to interpolate a pose


def imu_trajectory(folder: Path, frames: list[int], stamps: list[int] | None) -> list[np.ndarray | None]:  # each (4, 4)
    """Return T_world_imu of each scan, None where unknown. The origin is at the first packet; x points east, y north, z up.

    Scans and packets of a frame differ by some milliseconds, so poses are interpolated if both have stamps.
    """
    packets = numbered(folder / "data", ".txt")
    numbers = sorted(packets)
    poses = _poses([packets[number] for number in numbers])
    times = frame_stamps(folder / "timestamps.txt", numbers) if stamps is not None else None
    if stamps is None or times is None:
        by_frame = dict(zip(numbers, poses, strict=True))
        return [by_frame.get(frame) for frame in frames]
    return [_at(stamp, times, poses) for stamp in stamps]


def _at(stamp: int, times: list[int], poses: np.ndarray) -> np.ndarray | None:  # (4, 4)
    """Interpolate between the packets before and after; extrapolate at the ends by up to one interval."""
    if len(times) < 2:
        return poses[0] if abs(stamp - times[0]) <= _LONGEST else None
    before = min(max(int(np.searchsorted(times, stamp, side="right")) - 1, 0), len(times) - 2)
    interval = times[before + 1] - times[before]
    share = (stamp - times[before]) / interval
    if interval > _LONGEST or not -1.0 <= share <= 2.0:
        nearest = before + (share > 0.5)
        return poses[nearest] if stamp == times[nearest] else None
    return poses[before] @ exp(share * log(inverse(poses[before]) @ poses[before + 1]))


def _poses(files: list[Path]) -> np.ndarray:  # (K, 4, 4)
    """Convert packets to poses by the Mercator projection, scaled by the latitude of the first packet."""
    values = np.array([_packet(path) for path in files])  # latitude, longitude (degrees), altitude, roll, pitch, yaw (radians)
    latitude, longitude = np.deg2rad(values[:, 0]), np.deg2rad(values[:, 1])
    poses = np.tile(np.eye(4), (len(files), 1, 1))
    scale = _EARTH * np.cos(latitude[0])
    poses[:, 0, 3] = scale * longitude
    poses[:, 1, 3] = scale * np.arctanh(np.sin(latitude))
    poses[:, 2, 3] = values[:, 2]
    poses[:, :3, 3] -= poses[0, :3, 3]
    poses[:, :3, :3] = _about(2, values[:, 5]) @ _about(1, values[:, 4]) @ _about(0, values[:, 3])
    return poses


def _about(axis: int, angles: np.ndarray) -> np.ndarray:  # (K,) -> (K, 3, 3)
    """Rotations about one coordinate axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.tile(np.eye(3), (len(angles), 1, 1))
    R[:, i, i] = R[:, j, j] = np.cos(angles)
    R[:, j, i] = np.sin(angles)
    R[:, i, j] = -R[:, j, i]
    return R


def _packet(path: Path) -> list[float]:
    words = path.read_text("ascii", errors="replace").split()
    if len(words) < 6:
        raise FormatError(f"{path}: {len(words)} values, expected 30: latitude, longitude, altitude, roll, pitch, yaw, and more")
    packet = finite_numbers(path, 1, words[:6], 6)
    if not abs(packet[0]) < 89.0:
        raise FormatError(f"{path}: the latitude is {packet[0]:g} degrees; expected a value between -89 and 89")
    if max(map(abs, packet)) > 1e6:
        raise FormatError(f"{path}: a value is {max(packet, key=abs):g}; expected degrees, meters and radians")
    return packet


def T_velodyne_imu(path: Path) -> np.ndarray:  # (4, 4)
    """Read `R:` (nine numbers) and `T:` (three) of a calibration file."""
    parts: dict[str, tuple[int, list[str]]] = {}
    for number, line in enumerate(path.read_text("ascii", errors="replace").splitlines(), start=1):
        key, _, rest = line.partition(":")
        parts[key.strip()] = (number, rest.split())
    for key in "RT":
        if key not in parts:
            raise FormatError(f"{path}: no line '{key}:'", argument="poses", value=False, remedy="pass {argument} to ignore it")
    rotation = finite_numbers(path, *parts["R"], 9)
    translation = finite_numbers(path, *parts["T"], 3)
    rows = np.column_stack([np.array(rotation).reshape(3, 3), translation])
    return rigid_poses(rows.reshape(1, 12), path, [parts["R"][0]])[0]
