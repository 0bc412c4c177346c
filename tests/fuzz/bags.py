"""ROS bags, read and copied, and PointCloud2 messages in memory."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from rosbags.rosbag2 import CompressionMode

import poli
from poli.io.datasets.bag_copy import copy_of
from poli.io.datasets.bags import choose_topic, damage, open_reader
from poli.scan import Scan
from tiny_bags import cloud, write_bag
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

KINDS: dict[str, tuple[str, Any]] = {
    "ros1 plain": ("ros1", False), "ros1 lz4": ("ros1", "lz4"), "ros1 bz2": ("ros1", "bz2"), "sqlite3": ("sqlite3", False),
    "sqlite3 messages": ("sqlite3", CompressionMode.MESSAGE), "sqlite3 file": ("sqlite3", CompressionMode.FILE),
    "mcap": ("mcap", False), "mcap zstd": ("mcap", CompressionMode.STORAGE),
}  # fmt: skip


def _seeds(name: str, folder: Path) -> list[Tree]:
    kind, compressed = KINDS[name]
    path = folder / ("a.bag" if kind == "ros1" else "a")
    write_bag(path, kind, clouds=2, compressed=compressed, points=10, height=2, padding=4)
    tree = tree_of(folder if kind == "ros1" else path)
    if name in ("mcap", "mcap zstd", "sqlite3"):  # the file without its folder, too
        return [tree, {path: data for path, data in tree.items() if not path.endswith(".yaml")}]
    return [tree]


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


def _make_livox(kind: str, folder: Path, swap=lambda raw: raw) -> list[Tree]:
    path = folder / ("a.bag" if kind == "ros1" else "a")
    write_livox_bag(path, kind, [livox_cloud(kind, i, 10) for i in range(2)], swap=swap)
    return [tree_of(folder if kind == "ros1" else path)]


def _damage_livox(kind: str, tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    """Damage bytes of a file, or bytes of a message in an otherwise intact bag."""
    if rng.random() < 0.4:
        return damage_files(tree, rng, others)
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        other = serialized(kind, livox_cloud(kind, 7, 5))
        made = _make_livox(kind, Path(folder), lambda raw: damaged(raw, rng, other, BINARY))[0]
    return {file: made[file] for file in tree}


TARGETS = (
    *(Target(f"bag {name}", partial(_seeds, name), _read, damage_files) for name in KINDS),
    *(Target(f"copy {name}", partial(_seeds, name), _copy, damage_files) for name in ("ros1 lz4", "sqlite3", "mcap zstd")),
    *(Target(f"livox {kind}", partial(_make_livox, kind), _read, partial(_damage_livox, kind)) for kind in ("ros1", "mcap")),
    Target("message", lambda _: [{"message.json": as_json(_message())}], _read_message, _damage_message, share=5),
)
