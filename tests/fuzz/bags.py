"""ROS bags, read and copied, and PointCloud2 messages in memory."""

from __future__ import annotations

import io
import json
import sqlite3
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode

import poli
from poli.io.datasets.bag_copy import copy_of
from poli.io.datasets.bags import choose_topic, damage, open_reader
from poli.scan import Scan
from tiny_bags import CLOUD, STORES, cloud, write_bag
from tiny_livox import livox_cloud, serialized, write_livox_bag

from .damage import (
    BINARY,
    FLOATS,
    ODD,
    WHOLE,
    Rng,
    Target,
    Tree,
    as_json,
    changed,
    check_finite,
    damage_files,
    damaged,
    pick,
    tree_of,
)

KINDS = {
    "ros1 plain": ("ros1", None), "ros1 lz4": ("ros1", "lz4"), "ros1 bz2": ("ros1", "bz2"), "sqlite3": ("sqlite3", None),
    "sqlite3 messages": ("sqlite3", "message"), "sqlite3 file": ("sqlite3", "file"), "mcap": ("mcap", None),
    "mcap zstd": ("mcap", "zstd"), "mcap lz4": ("mcap", "lz4"),
}  # fmt: skip


def _make(name: str, folder: Path, swap=lambda raw: raw) -> Tree:
    """Write a bag of this kind; `swap` is applied to every message before compression."""
    kind, compression = KINDS[name]
    path = folder / ("a.bag" if kind == "ros1" else "a")
    if kind == "ros1":
        _write_ros1(path, compression, swap)
        return tree_of(folder)
    modes = {"message": CompressionMode.MESSAGE, "file": CompressionMode.FILE, "zstd": CompressionMode.STORAGE}
    _write_bag2(path, kind, modes.get(compression or ""), swap)
    if compression == "lz4":
        _as_lz4(next(path.glob("*.mcap")))
    return tree_of(path)


def _write_ros1(path: Path, compression: str | None, swap) -> None:
    store = STORES["ros1"]
    writer = Writer1(path)
    if compression:
        writer.set_compression(Writer1.CompressionFormat[compression.upper()])
    with writer:
        connection = writer.add_connection("/points", CLOUD, typestore=store)
        for i in range(2):
            writer.write(connection, 10**18 + i, swap(bytes(store.serialize_ros1(cloud("ros1", i, 20), CLOUD))))


def _write_bag2(path: Path, kind: str, mode: CompressionMode | None, swap) -> None:
    from rosbags.rosbag2 import StoragePlugin
    from rosbags.rosbag2 import Writer as Writer2

    store = STORES[kind]
    writer = Writer2(path, version=9, storage_plugin=StoragePlugin[kind.upper()])
    if mode is not None:
        writer.set_compression(mode, CompressionFormat.ZSTD)
    with writer:
        connection = writer.add_connection("/points", CLOUD, typestore=store)
        for i in range(2):
            writer.write(connection, 10**18 + i, swap(bytes(store.serialize_cdr(cloud(kind, i, 20), CLOUD))))


def _as_lz4(path: Path) -> None:
    """The same file with its chunks compressed by lz4, which rosbags cannot write."""
    from mcap.reader import make_reader
    from mcap.writer import CompressionType, Writer

    content = path.read_bytes()
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.LZ4)
        writer.start("ros2", "x")
        for schema, channel, message in make_reader(io.BytesIO(content)).iter_messages():
            kind = writer.register_schema(schema.name, schema.encoding, schema.data)
            topic = writer.register_channel(channel.topic, channel.message_encoding, kind, channel.metadata)
            writer.add_message(topic, message.log_time, message.data, message.publish_time)
        writer.finish()


def _seeds(name: str, folder: Path) -> list[Tree]:
    tree = _make(name, folder)
    trees = [tree]
    if name in ("mcap", "mcap zstd", "mcap lz4", "sqlite3"):  # the file without its folder
        trees.append({path: data for path, data in tree.items() if not path.endswith(".yaml")})
    return trees


def _bag_in(folder: Path) -> Path:
    files = list(folder.iterdir())
    return files[0] if len(files) == 1 and files[0].suffix in (".bag", ".mcap", ".db3") else folder


def _read(folder: Path) -> object:
    with poli.dataset("bag", _bag_in(folder)) as scans:
        for found in scans:
            check_finite("points", found.points)
        return scans


def _copy(folder: Path) -> object:
    path = _bag_in(folder)
    out = folder.parent / f"copy{path.suffix if path.is_file() else ''}"
    with damage(path, "cannot be read"):
        reader = open_reader(path)
        try:
            topic = choose_topic(reader, path, None)
        finally:
            reader.close()
        for item in copy_of(path, out, topic):
            if item is not None:
                item.write(item.raw)
    return out


def _damage(name: str, tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    """Damage bytes of a file, bytes of a message in an otherwise intact bag, or values in a database."""
    kind = rng.random()
    if kind < 0.3:
        return _with_damaged_messages(name, tree, rng)
    database = next((file for file in tree if file.endswith(".db3")), None)
    if kind < 0.5 and database is not None:
        return {**tree, database: _changed_database(tree[database], rng)}
    return damage_files(tree, rng, others)


def _with_damaged_messages(name: str, tree: Tree, rng: Rng) -> Tree:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        other = bytes(STORES["ros1"].serialize_ros1(cloud("ros1", 7, 5), CLOUD))
        made = _make(name, Path(folder), lambda raw: damaged(raw, rng, other, BINARY))
    return {file: made[file] for file in tree}


def _changed_database(data: bytes, rng: Rng) -> bytes:
    database = sqlite3.connect(":memory:")
    database.deserialize(data)
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for _ in range(int(rng.integers(1, 4))):
        table = pick(rng, tables)
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        value = pick(
            rng, (None, 0, -1, 2**62, 1.5, float("inf"), "", "text", "\x1b[2J", b"", b"\xff" * 30, rng.bytes(100), -(2**63))
        )
        statement = pick(
            rng,
            (
                (f'UPDATE OR IGNORE "{table}" SET "{pick(rng, columns)}" = ?', (value,)),
                (f'DELETE FROM "{table}"', ()),
                (f'ALTER TABLE "{table}" RENAME COLUMN "{pick(rng, columns)}" TO "odd"', ()),
                (f'DROP TABLE "{table}"', ()),
                (f'INSERT INTO "{table}" SELECT * FROM "{table}"', ()),
                (f'CREATE VIEW "v{rng.integers(10**6)}" AS SELECT * FROM "{table}"', ()),
            ),
        )
        try:
            database.execute(*statement)
        except sqlite3.Error:
            continue
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")] or tables
    database.commit()
    return bytes(database.serialize())


# --- messages in memory


@cache
def _message() -> dict[str, Any]:
    found = cloud("sqlite3", 1, 10)
    fields = [{"name": f.name, "offset": f.offset, "datatype": f.datatype, "count": f.count} for f in found.fields]
    stamp = {"sec": found.header.stamp.sec, "nanosec": found.header.stamp.nanosec}
    numbers = {name: int(getattr(found, name)) for name in ("height", "width", "point_step", "row_step")}
    return {"header": {"stamp": stamp}, "fields": fields, "is_bigendian": False, **numbers, "data": bytes(found.data).hex()}


def _damage_message(tree: Tree, rng: Rng, _others: list[Tree]) -> Tree:
    value = json.loads(tree["message.json"])
    if rng.random() < 0.5:
        return {"message.json": as_json(changed(value, rng))}
    for _ in range(int(rng.integers(1, 4))):  # replace numbers by numbers
        holder = pick(rng, (value, value, *value["fields"]))
        name = pick(rng, [key for key, entry in holder.items() if isinstance(entry, int)])
        holder[name] = pick(
            rng, (*WHOLE, *(-w for w in WHOLE[1:6]), int(rng.integers(64)), int(rng.integers(10)), *map(float, FLOATS[4:9]))
        )
    if rng.random() < 0.3:
        value["fields"].append(dict(pick(rng, value["fields"]), name=pick(rng, ("time", "t", "x", "line", "", "_", "odd"))))
    return {"message.json": as_json(value)}


def _read_message(folder: Path) -> object:
    value = json.loads((folder / "message.json").read_bytes())
    message = _as_message(value, whole=True)
    found = []
    for read in (Scan.of, poli.read):
        try:
            found.append(read(message))
            check_finite("points", found[-1].points)
        except poli.PoliError:
            if read is poli.read:
                raise
    return found


def _as_message(value: Any, whole: bool = False) -> Any:
    """Convert every table to a namespace and a hexadecimal `data` to bytes."""
    if isinstance(value, list) and not whole:
        return [_as_message(entry) for entry in value]
    if not isinstance(value, dict) and not whole:
        return value
    value = value if isinstance(value, dict) else {}
    made = SimpleNamespace(**{key: _as_message(entry) for key, entry in value.items()})
    data = getattr(made, "data", None)
    if isinstance(data, str):
        try:
            made.data = np.frombuffer(bytes.fromhex(data), np.uint8)
        except ValueError:
            made.data = data.encode("utf-8", "surrogatepass")
    for name in ("height", "width", "fields", "is_bigendian", "point_step", "row_step", "data"):
        if whole and not hasattr(made, name):  # otherwise it would not be a message at all
            setattr(made, name, ODD[len(value) % len(ODD)])
    return made


def _chatty(folder: Path) -> list[Tree]:
    """Several topics, strings between the clouds, and padded rows."""
    write_bag(folder / "a", "mcap", clouds=2, points=10, height=2, padding=4)
    return [tree_of(folder / "a")]


def _make_livox(kind: str, folder: Path, swap=lambda raw: raw) -> list[Tree]:
    path = folder / ("a.bag" if kind == "ros1" else "a")
    write_livox_bag(path, kind, [livox_cloud(kind, i, 10) for i in range(2)], swap=swap)
    return [tree_of(folder if kind == "ros1" else path)]


def _damage_livox(kind: str, tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    """Damage bytes of a file, or bytes of a message in an otherwise intact bag."""
    from tempfile import TemporaryDirectory

    if rng.random() < 0.4:
        return damage_files(tree, rng, others)
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        other = serialized(kind, livox_cloud(kind, 7, 5))
        made = _make_livox(kind, Path(folder), lambda raw: damaged(raw, rng, other, BINARY))[0]
    return {file: made[file] for file in tree}


TARGETS = (
    *(Target(f"bag {name}", partial(_seeds, name), _read, partial(_damage, name)) for name in KINDS),
    *(
        Target(f"copy {name}", partial(_seeds, name), _copy, partial(_damage, name))
        for name in ("ros1 lz4", "sqlite3", "mcap zstd")
    ),
    *(Target(f"livox {kind}", partial(_make_livox, kind), _read, partial(_damage_livox, kind)) for kind in ("ros1", "mcap")),
    Target("bag chatty", _chatty, _read, damage_files),
    Target("message", lambda _: [{"message.json": as_json(_message())}], _read_message, _damage_message, share=5),
)
