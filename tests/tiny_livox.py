"""Livox messages and bags of them, written by rosbags from Livox' message definitions."""

import numpy as np
import pytest

from tiny_scans import room

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

STAMP = 1_691_936_557_946_849_179
KINDS = ("ros1", "sqlite3", "mcap")
PACKAGES = ("livox_ros_driver", "livox_interfaces", "livox_ros_driver2")
MESSAGE = """# Livox publish pointcloud msg format.
std_msgs/Header header    # ROS standard message header
uint64 timebase           # The time of first point
uint32 point_num          # Total number of pointclouds
uint8  lidar_id           # Lidar device id number
uint8[3]  rsvd            # Reserved use
CustomPoint[] points      # Pointcloud data
"""
POINT = """uint32 offset_time
float32 x
float32 y
float32 z
uint8 reflectivity
uint8 tag
uint8 line
"""


def store_of(kind, message=MESSAGE):
    store = get_typestore(Stores.ROS1_NOETIC if kind == "ros1" else Stores.ROS2_HUMBLE)
    for package in PACKAGES:
        store.register(get_types_from_msg(POINT, f"{package}/msg/CustomPoint"))
        store.register(get_types_from_msg(message, f"{package}/msg/CustomMsg"))
    return store


STORES = {kind: store_of(kind) for kind in KINDS}


def livox_cloud(kind, number, points=60, frame="livox_frame", package="livox_ros_driver2"):
    """Points of the small room, over 0.1 s; the second is a missing return."""
    types = STORES[kind].types
    stamp = STAMP + number * 100_000_000
    extra = {"seq": number} if kind == "ros1" else {}
    time = types["builtin_interfaces/msg/Time"](sec=stamp // 10**9, nanosec=stamp % 10**9)
    header = types["std_msgs/msg/Header"](stamp=time, frame_id=frame, **extra)
    places = room(points, number).points.astype(np.float32)
    places[1:2] = 0.0
    rng = np.random.default_rng(number)
    point = types[f"{package}/msg/CustomPoint"]
    rows = [point(i * 100_000_000 // points, *map(float, p), *map(int, rng.integers(0, 256, 3))) for i, p in enumerate(places)]
    return types[f"{package}/msg/CustomMsg"](header, stamp, points, 3, np.array([7, 8, 9], np.uint8), rows)


def serialized(kind, cloud, **options):
    store, name = STORES[kind], cloud.__msgtype__
    return bytes(store.serialize_ros1(cloud, name) if kind == "ros1" else store.serialize_cdr(cloud, name, **options))


def write_livox_bag(path, kind, clouds, package="livox_ros_driver2", swap=lambda raw: raw, version=9):
    """Clouds on /livox/lidar, and a string after each; the path of the bag's data."""
    store = STORES[kind]
    writer = Writer1(path) if kind == "ros1" else Writer2(path, version=version, storage_plugin=StoragePlugin[kind.upper()])
    text = "std_msgs/msg/String"
    with writer:
        lidar = writer.add_connection("/livox/lidar", f"{package}/msg/CustomMsg", typestore=store)
        chatter = writer.add_connection("/chatter", text, typestore=store)
        for i, cloud in enumerate(clouds):
            writer.write(lidar, STAMP + i * 100_000_000, swap(serialized(kind, cloud)))
            said = store.types[text](f"{i}")
            writer.write(
                chatter, STAMP + i, store.serialize_ros1(said, text) if kind == "ros1" else store.serialize_cdr(said, text)
            )
    return path if kind == "ros1" else next(p for p in path.iterdir() if p.name != "metadata.yaml")
