"""Hostile ROS bags. The inflating parts are zeros, which zstd and bzip2 compress to almost nothing."""

from __future__ import annotations

import bz2
import sqlite3
import struct
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import lz4.frame
from backports import zstd

import poli
from tiny_bags import CLOUD, STORES, cloud, write_bag

from .point_bombs import LARGE, MANY, MOST, Bomb

_STEP = bytes(1 << 20)


@cache
def _packed_zeros(kind: str, size: int = LARGE) -> bytes:
    """Compress zeros without holding them in memory."""
    steps = size // len(_STEP)
    if kind == "bz2":
        return bz2.compress(_STEP * 10) * (steps // 10)  # concatenated streams are valid
    if kind == "lz4":
        with lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB) as packer:
            return packer.begin() + b"".join(packer.compress(_STEP) for _ in range(steps)) + packer.flush()
    packer = zstd.ZstdCompressor()
    return b"".join(packer.compress(_STEP) for _ in range(steps)) + packer.flush()


# --- mcap


def _record(op: int, content: bytes) -> bytes:
    return struct.pack("<BQ", op, len(content)) + content


def _text(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text


def _mcap(chunks: Iterable[bytes], index: Callable[[int, int], bytes] | None = None) -> bytes:
    """A file of one topic with these chunks and an index of them, made by `index(offset, length)`."""
    magic = b"\x89MCAP0\r\n"
    schema = _record(3, struct.pack("<H", 1) + _text(CLOUD.encode()) + _text(b"") + _text(b""))
    channel = _record(4, struct.pack("<HH", 1, 1) + _text(b"/points") + _text(b"cdr") + _text(b""))
    out = magic + _record(1, _text(b"ros2") + _text(b"x")) + schema + channel
    entries = b""
    for chunk in chunks:
        entries += index(len(out), len(chunk)) if index else b""
        out += chunk
    out += _record(15, bytes(4))
    begin = len(out) if index else 0
    statistics = _record(11, struct.pack("<QHIIIIQQ", 1, 1, 1, 0, 0, 1, 1, 2) + _text(struct.pack("<HQ", 1, 1)))
    summary = schema + channel + statistics + entries if index else b""
    return out + summary + _record(2, struct.pack("<QQI", begin, 0, 0)) + magic


def _chunk(kind: str, packed: bytes, size: int) -> bytes:
    return _record(6, struct.pack("<QQQI", 1, 2, size, 0) + _text(kind.encode()) + struct.pack("<Q", len(packed)) + packed)


def _index(kind: str, packed: int, size: int, times: int, offset: int, length: int) -> bytes:
    places = struct.pack("<HQ", 1, offset + length)
    entry = struct.pack("<QQQQ", 1, 2, offset, length) + _text(places) + struct.pack("<Q", 47) + _text(kind.encode())
    return _record(8, entry + struct.pack("<QQ", packed, size)) * times


def _mcap_zeros(kind: str, size: int = LARGE, promised: int | None = None, indexed: bool = False, times: int = 1) -> bytes:
    packed = _packed_zeros(kind, size)
    promised = size // len(_STEP) * len(_STEP) if promised is None else promised
    index = partial(_index, kind, len(packed), promised, times) if indexed else None
    return _mcap([_chunk(kind, packed, promised)], index)


# --- ROS 1


def _bag(compression: str, packed: bytes, size: int, connections: int = 1) -> bytes:
    """One chunk and one topic; the counts are those promised in the headers."""

    def header(**fields: bytes) -> bytes:
        joined = b"".join(_text(name.encode() + b"=" + value) for name, value in fields.items())
        return _text(joined)

    told, md5 = (text.encode() for text in STORES["ros1"].generate_msgdef(CLOUD))
    chunk = header(op=b"\5", compression=compression.encode(), size=struct.pack("<I", size & MANY)) + _text(packed)
    index = header(op=b"\4", ver=struct.pack("<I", 1), conn=bytes(4), count=struct.pack("<I", 1)) + _text(bytes(12))
    about = {b"topic": b"/points", b"type": b"sensor_msgs/PointCloud2", b"md5sum": md5, b"message_definition": told}
    named = b"".join(_text(name + b"=" + value) for name, value in about.items())
    connection = header(op=b"\7", conn=bytes(4), topic=b"/points") + _text(named)
    start = len(b"#ROSBAG V2.0\n") + 4096 + 8
    times = {"start_time": bytes(8), "end_time": bytes(8)}
    one = struct.pack("<I", 1)
    info = header(op=b"\6", ver=one, chunk_pos=struct.pack("<Q", start), **times, count=one) + _text(bytes(4) + one)
    at = struct.pack("<Q", start + len(chunk) + len(index))
    first = header(op=b"\3", index_pos=at, conn_count=struct.pack("<I", connections), chunk_count=one)
    first += struct.pack("<I", 4096 + 4 - len(first) + 4 - 4) + b" " * (4096 + 4 - len(first))
    return b"#ROSBAG V2.0\n" + first + chunk + index + connection + info


# --- folders of ROS 2


def _database(change: Callable[[sqlite3.Connection], object]) -> bytes:
    with TemporaryDirectory() as place:
        file = write_bag(Path(place) / "bag", "sqlite3", clouds=1, points=10)
        database = sqlite3.connect(file)
        change(database)
        database.commit()
        database.close()
        return file.read_bytes()


def _generated(database: sqlite3.Connection) -> None:
    database.execute("DROP TABLE messages")
    database.execute(
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB AS (zeroblob(900000000)))"
    )
    database.execute("INSERT INTO messages(id, topic_id, timestamp) VALUES (1, 1, 1)")


def _recursive_view(database: sqlite3.Connection) -> None:
    database.execute("DROP TABLE messages")
    database.execute(
        "CREATE VIEW messages AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
        "SELECT id, 1 AS topic_id, id AS timestamp, zeroblob(1000) AS data FROM n"
    )
    database.execute("PRAGMA writable_schema = 1")
    database.execute("UPDATE sqlite_master SET type = 'table' WHERE name = 'messages'")


def _read(path: Path) -> object:
    with poli.dataset("bag", path) as scans:
        return [len(scan) for scan in scans]


def _read_with(kind: str, change: Callable[[Path, bytes], object], mode: str | None, path: Path) -> object:
    """Read a valid folder after `change(folder, bomb)`."""
    from rosbags.rosbag2 import CompressionMode

    folder = path.parent / "bag"
    write_bag(folder, kind, clouds=1, points=10, compressed=None if mode is None else CompressionMode[mode])
    change(folder, path.read_bytes())
    return _read(folder)


def _set_message(folder: Path, raw: bytes) -> None:
    with closing(sqlite3.connect(next(folder.glob("*.db3")))) as database, database:
        database.execute("UPDATE messages SET data = ?", (raw,))


def _set_file(folder: Path, raw: bytes) -> None:
    next(folder.glob("*.zstd")).write_bytes(raw)


def _set_count(folder: Path, raw: bytes) -> None:
    metadata = folder / "metadata.yaml"
    metadata.write_bytes(metadata.read_bytes().replace(b"message_count: 1\n", raw))


def _fields_of_message() -> bytes:
    """A message whose list of fields claims four billion entries."""
    raw = bytearray(STORES["ros1"].serialize_ros1(cloud("ros1", 1, 5), CLOUD))
    at = 4 + 8 + 4 + len("lidar") + 8
    raw[at : at + 4] = struct.pack("<I", MANY)
    record = _text(b"".join(_text(f) for f in (b"op=\2", b"conn=" + bytes(4), b"time=" + bytes(8)))) + _text(bytes(raw))
    return _bag("none", record, len(record))


BOMBS: dict[str, Bomb] = {
    "zstd.mcap": (partial(_mcap_zeros, "zstd"), _read),
    "indexed_zstd.mcap": (partial(_mcap_zeros, "zstd", indexed=True), _read),
    "lie_small.mcap": (partial(_mcap_zeros, "zstd", promised=100, indexed=True), _read),
    "same_chunk.mcap": (partial(_mcap_zeros, "zstd", 50 << 20, indexed=True, times=1000), _read),
    "record.mcap": (lambda: _mcap([struct.pack("<BQ", 6, MOST)]), _read),
    "bzip2.bag": (lambda: _bag("bz2", _packed_zeros("bz2"), LARGE), _read),
    "lz4.bag": (lambda: _bag("lz4", _packed_zeros("lz4"), LARGE), _read),
    "connections.bag": (lambda: _bag("none", bytes(100), 100, connections=MANY), _read),
    "fields.bag": (_fields_of_message, _read),
    "generated.db3": (lambda: _database(_generated), _read),
    "view.db3": (lambda: _database(_recursive_view), _read),
    "message.zstd": (partial(_packed_zeros, "zstd"), partial(_read_with, "sqlite3", _set_message, "MESSAGE")),
    "file.zstd": (partial(_packed_zeros, "zstd"), partial(_read_with, "sqlite3", _set_file, "FILE")),
    "counts metadata.yaml": (lambda: b"message_count: 4294967295\n", partial(_read_with, "mcap", _set_count, None)),
}
