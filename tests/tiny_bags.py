"""Helpers that read and write the bags of the densify tests, using rosbags."""

import numpy as np
import pytest

from poli.worlds import Sensor
from tiny_scans import room

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
from rosbags.highlevel import AnyReader
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

CLOUD, TEXT, CUSTOM = "sensor_msgs/msg/PointCloud2", "std_msgs/msg/String", "sensor_msgs/msg/Imu"
STAMP = 1_691_936_557_946_849_179
STORES = {"ros1": get_typestore(Stores.ROS1_NOETIC), "sqlite3": get_typestore(Stores.ROS2_HUMBLE)}
STORES["mcap"] = STORES["sqlite3"]
NEVER = QosTime(2147483647, 4294967295)
QOS = Qos(
    QosHistory.KEEP_LAST, 5, QosReliability.BEST_EFFORT, QosDurability.VOLATILE, NEVER, NEVER, QosLiveliness.AUTOMATIC, NEVER, False
)  # fmt: skip
# Bytes 0-1 and 28-31 belong to no field.
LAYOUT = np.dtype(
    {
        "names": ["x", "y", "z", "intensity", "t", "ring", "tag"],
        "formats": ["f4", "f4", "f4", "f4", "u4", "u2", "u1"],
        "offsets": [2, 6, 10, 14, 18, 22, 24],
        "itemsize": 32,
    }
)
DATATYPES = {"f4": 7, "u4": 6, "u2": 4, "u1": 2}


def pointcloud2(kind, number, layout, data, width, height=1, big=False, padding=0, frame="lidar"):
    """The message number `number` of a recording, whose points have this layout."""
    types = STORES[kind].types
    stamp = STAMP + number * 100_000_000
    time = types["builtin_interfaces/msg/Time"](sec=stamp // 10**9, nanosec=stamp % 10**9)
    header = types["std_msgs/msg/Header"](stamp=time, frame_id=frame, **({"seq": number} if kind == "ros1" else {}))
    field = types["sensor_msgs/msg/PointField"]
    fields = [field(name, layout.fields[name][1], DATATYPES[layout[name].str[1:]], 1) for name in layout.names]
    return types[CLOUD](header, height, width, fields, big, layout.itemsize, layout.itemsize * width + padding, data, True)


def cloud(kind, number, points=60, height=1, big=False, padding=0, topic_frame="lidar"):
    """A message with points of the small room; every byte outside the coordinates is random."""
    layout = LAYOUT.newbyteorder(">" if big else "<")
    scan = room(points * height, number)
    records = np.frombuffer(np.random.default_rng(number).bytes(32 * len(scan)), layout).copy()
    for column, axis in enumerate("xyz"):
        records[axis] = scan.points[:, column]
    records["t"] = np.arange(len(scan)) * 1_000_000
    rows = records.view(np.uint8).reshape(height, -1)
    data = np.concatenate([rows, np.full((height, padding), 7, np.uint8)], axis=1).reshape(-1)
    return pointcloud2(kind, number, LAYOUT, data, points, height, big, padding, topic_frame)


def write_bag(path, kind, clouds=4, compressed=False, version=9, first=0, **options):
    """Clouds on /points, two strings after each on /chatter, a last string at the end, and a topic without messages."""
    store = STORES[kind]
    ros1 = kind == "ros1"
    writer = Writer1(path) if ros1 else Writer2(path, version=version, storage_plugin=StoragePlugin[kind.upper()])
    if compressed:
        mode = CompressionMode.STORAGE if kind == "mcap" else CompressionMode.MESSAGE
        mode = compressed if isinstance(compressed, CompressionMode) else mode
        name = compressed.upper() if isinstance(compressed, str) else "LZ4"
        writer.set_compression(*((Writer1.CompressionFormat[name],) if ros1 else (mode, CompressionFormat.ZSTD)))
    serialize = store.serialize_ros1 if ros1 else store.serialize_cdr
    told = (
        [{"callerid": "/driver", "latching": 0}, {"callerid": "/talker", "latching": 1}]
        if ros1
        else 2 * [{"offered_qos_profiles": [QOS]}]
    )
    with writer:
        points = writer.add_connection("/points", CLOUD, typestore=store, **told[0])
        text = writer.add_connection("/chatter", TEXT, typestore=store, **told[1])
        writer.add_connection("/imu", CUSTOM, typestore=store)
        for i in range(first, first + clouds):
            time = STAMP + i * 100_000_000
            writer.write(points, time, serialize(cloud(kind, i, **options), CLOUD))
            for j in range(2):
                writer.write(text, time + j, serialize(store.types[TEXT](f"{i} {j}" * (j + 1)), TEXT))
    return path if ros1 else next(p for p in path.iterdir() if p.name != "metadata.yaml")


def contents(path):
    """The contents as read by rosbags: connections, messages of other topics, and clouds with their recording times."""
    with AnyReader([path], default_typestore=STORES["sqlite3"]) as reader:
        connections = [(c.topic, c.msgtype, c.msgdef, c.digest, c.ext, c.msgcount) for c in reader.connections]
        others, clouds = [], []
        for connection, time, raw in reader.messages():
            if connection.topic == "/points":
                clouds.append((time, reader.deserialize(raw, connection.msgtype)))
            else:
                others.append((connection.topic, time, bytes(raw)))
    return connections, others, clouds


def write_clouds(path, kind, clouds, topics=("/points",)):
    """Write every cloud to every topic, recorded at 100 ms times its number plus 5 ms; (path of the bag, path of its data)."""
    store = STORES[kind]
    writer = Writer1(path) if kind == "ros1" else Writer2(path, version=9, storage_plugin=StoragePlugin[kind.upper()])
    with writer:
        connections = [writer.add_connection(topic, CLOUD, typestore=store) for topic in topics]
        text = writer.add_connection("/chatter", "std_msgs/msg/String", typestore=store)
        serialize = store.serialize_ros1 if kind == "ros1" else store.serialize_cdr
        for i, message in enumerate(clouds):
            for connection in connections:
                writer.write(connection, STAMP + i * 100_000_000 + 5_000_000, serialize(message, CLOUD))
            writer.write(text, STAMP + i * 100_000_000, serialize(store.types["std_msgs/msg/String"]("hi"), "std_msgs/msg/String"))
    return path if kind == "ros1" else next(p for p in path.iterdir() if p.suffix in (".db3", ".mcap"))


SENSOR = Sensor(tuple(np.linspace(-20.0, 15.0, 24)), steps=360, max_range=80.0, noise=0.01)


def message(kind, scan, number):
    """As drivers publish it: every point in the sensor's frame at the time of that point."""
    layout = [(name, "<f4") for name in ("x", "y", "z", "intensity", "time")] + [("ring", "<u2")]
    records = np.zeros(len(scan), layout)
    for a, name in enumerate("xyz"):
        records[name] = scan.points[:, a]
    records["time"], records["ring"] = scan.fields["time"], scan.fields["ring"]
    return pointcloud2(kind, number, records.dtype, np.frombuffer(records.tobytes(), np.uint8), len(scan))
