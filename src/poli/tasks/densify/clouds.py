"""Densify PointCloud2 and Livox messages. Fields, frame and stamp are kept; samples differ from their parents only in x, y, z."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from poli.data.datasets.bags import CLOUD
from poli.data.datasets.livox import LIVOX, decode_livox, encode_livox
from poli.data.datasets.pointcloud2 import records_of_cloud
from poli.errors import FormatError
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.engines import Large
from poli.tasks.densify.resume import Message
from poli.tasks.densify.scans import densify_records


def densify_message(job: Large, config: DensifyConfig, ros2: bool, msgtype: str = CLOUD) -> Message:
    """Densify a serialized message. `job` is the message and its name in errors. The result is always a cloud of one row."""
    raw, where = job
    if msgtype in LIVOX:
        return _densify_livox(raw, where, config, ros2)
    store = _typestore(ros2)
    try:
        cloud: Any = store.deserialize_cdr(raw, CLOUD) if ros2 else store.deserialize_ros1(raw, CLOUD)
    except Exception as error:  # rosbags, struct and numpy raise many kinds
        raise FormatError(f"{where}: not a readable PointCloud2 ({type(error).__name__}: {str(error)[:120]})") from None
    before = cloud.height * cloud.width
    if not before:
        return Message(bytes(raw), 0, 0)
    after, why = densify_cloud(cloud, config, where)
    written = store.serialize_cdr(cloud, CLOUD) if ros2 else store.serialize_ros1(cloud, CLOUD)
    return Message(bytes(written), before, after, why)


def densify_cloud(
    cloud: Any, config: DensifyConfig, where: str, as_data: Callable[[np.ndarray], Any] = lambda data: data
) -> tuple[int, str]:
    """Densify a message in place. Return its number of points, and the reason if no points were added.

    `as_data` converts (B,) uint8 to the type of `cloud.data`.
    """
    dense, why = densify_records(records_of_cloud(cloud, where), config, where)
    cloud.height, cloud.width = 1, len(dense)
    cloud.row_step = len(dense) * cloud.point_step
    cloud.data = as_data(dense.view(np.uint8))
    return len(dense), why


def _densify_livox(raw: Any, where: str, config: DensifyConfig, ros2: bool) -> Message:
    try:
        cloud = decode_livox(raw, ros2)
    except (ValueError, struct.error) as error:
        raise FormatError(f"{where}: not a readable Livox message ({str(error)[:120]})") from None
    before = len(cloud.records)
    if not before:
        return Message(bytes(raw), 0, 0)
    dense, why = densify_records(np.ascontiguousarray(cloud.records), config, where)
    return Message(encode_livox(cloud, dense), before, len(dense), why)


@lru_cache(maxsize=2)
def _typestore(ros2: bool) -> Any:
    """Return the type store for ROS 1 or 2. PointCloud2 is the same message in all releases of each."""
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.LATEST if ros2 else Stores.ROS1_NOETIC)
