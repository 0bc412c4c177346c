"""Write a drive as input of `poli densify`: a folder of .bin files, and an mcap bag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.data.drives import SimulatedDrive
from poli.data.datasets import dataset
from poli.data.formats.kitti_bin import LAYOUT, write_kitti_bin
from poli.errors import MissingExtra
from poli.scan import Scan

_CLOUD = "sensor_msgs/msg/PointCloud2"
_FLOAT32 = 7  # a type of PointField
_PERIOD = 100_000_000  # nanoseconds between scans


@dataclass(frozen=True)
class Scans:
    """The scans to densify."""

    name: str
    clouds: list[np.ndarray]  # each (N, 3), float32


def simulated(sensor: str, place: str, count: int, keep: Path) -> Scans:
    drive = SimulatedDrive(sensor, place, count, keep).open()
    return Scans(f"simulated drive {drive.name}", drive.scans)


def recorded(path: Path, count: int) -> Scans:
    """The first `count` scans of the dataset at `path`."""
    found = dataset("auto", path)
    return Scans(found.name, [scan.points.astype(np.float32) for scan in islice(found, count)])


def write_bins(clouds: Sequence[np.ndarray], folder: Path) -> Path:
    folder.mkdir()
    for number, points in enumerate(clouds):
        write_kitti_bin(folder / f"{number:06d}.bin", Scan(points))
    return folder


def write_mcap(clouds: Sequence[np.ndarray], folder: Path) -> Path:
    """Write a ROS 2 bag with the same records: x, y, z and intensity as float32."""
    try:
        from rosbags.rosbag2 import StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise MissingExtra("writing ROS bags", "ros") from None
    store = get_typestore(Stores.ROS2_HUMBLE)
    cloud, header, time, field = (
        store.types[name] for name in (_CLOUD, "std_msgs/msg/Header", "builtin_interfaces/msg/Time", "sensor_msgs/msg/PointField")
    )
    fields = [field(name, 4 * i, _FLOAT32, 1) for i, name in enumerate(LAYOUT.names or ())]
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topic = writer.add_connection("/points", _CLOUD, typestore=store)
        for number, points in enumerate(clouds):
            values = np.zeros((len(points), len(fields)), np.float32)
            values[:, :3] = points
            sec, nanosec = divmod((number + 1) * _PERIOD, 10**9)
            data = values.reshape(-1).view(np.uint8)
            step = LAYOUT.itemsize
            message = cloud(
                header(time(sec, nanosec), "lidar"), 1, len(points), fields, False, step, step * len(points), data, True
            )
            writer.write(topic, (number + 1) * _PERIOD, store.serialize_cdr(message, _CLOUD))
    return folder
