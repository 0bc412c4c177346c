"""Densify the clouds of one topic of a bag. All other messages are copied byte for byte.

One pass in bag order, with a bounded number of messages in memory. The new bag is written in the hidden workspace next to OUT and
renamed to OUT at the end. Until then, every finished cloud is also kept in the workspace. If a run is killed, the same command
resumes it: finished clouds are copied from the workspace at disk speed, and the rest is computed. A cloud depends only on its
message, the configuration and the release, so the output is identical to that of an uninterrupted run.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from poli.configs import DensifyConfig
from poli.densification.densify import Tally, densify_records
from poli.densification.engines import Engine, Large, Promise
from poli.densification.resume import (
    TEMPORARY,
    Message,
    NoParts,
    Parts,
    check_apart,
    describe_run,
    mark_finished,
    remove_finished,
    workspace,
)
from poli.errors import FormatError
from poli.io.datasets.bag_copy import Item, copy_of
from poli.io.datasets.bags import CLOUD, choose_topic, damage, open_reader
from poli.io.messages import LIVOX, decode_livox, encode_livox, records_of_cloud

# --- Densify PointCloud2 and Livox messages. Fields, frame and stamp are kept; samples differ from their parents only in x, y, z.


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


_MOST_WAITING = 64 << 20  # bytes of other messages that wait for an earlier cloud


class Bag(NamedTuple):
    """A checked bag to densify."""

    path: Path
    topic: str
    clouds: int  # of the topic
    msgtype: str = CLOUD


def look_into_bag(path: Path, out: Path, topic: str | None = None) -> Bag:
    check_apart(path, out)
    if path.is_file() and out.suffix != path.suffix:
        raise FormatError(f"{out}: the input is a {path.suffix} file; give the output the same ending")
    if path.is_dir() and out.suffix in (".bag", ".db3", ".mcap"):
        raise FormatError(f"{out}: the input is a folder, so the output will be one; give a name without {out.suffix}")
    with closing(open_reader(path)) as reader:
        chosen = choose_topic(reader, path, topic)
        connections = [c for c in reader.connections if c.topic == chosen]
        return Bag(path, chosen, sum(c.msgcount for c in connections), connections[0].msgtype)


def densify_bag(
    bag: Bag, out: Path, config: DensifyConfig, engine: Engine, resumable: bool = True, overwrite: bool = False
) -> Generator[Tally, None, None]:
    """Densify a bag, and yield the progress after every cloud.

    If not `resumable`, no second copy of the clouds is kept, and a killed run has to start over.
    """
    if out.exists() and not overwrite:
        remove_finished(out)
        raise FormatError(f"{out}: already exists; remove it first, or give another name")
    run = describe_run(bag.path, config, topic=bag.topic, files=_files(bag.path))
    with workspace(out) as folder:
        parts = Parts(folder, run) if resumable else NoParts()
        temporary = folder / TEMPORARY / out.name
        work = partial(densify_message, config=config, ros2=bag.path.suffix != ".bag", msgtype=bag.msgtype)
        with copy_of(bag.path, temporary, bag.topic) as items:
            yield from _Pass(bag, parts, engine, work).run(items)
        if out.is_dir():  # unlike files, folders cannot be replaced atomically
            out.rename(folder / TEMPORARY / "before")
        mark_finished(folder)
        temporary.replace(out)


class _Waiting(NamedTuple):
    item: Item
    number: int = -1  # of clouds
    promise: Promise | None = None  # of clouds being computed
    kept: Message | None = None  # of clouds computed by an earlier run


class _Pass:
    """One pass through the bag. Items are queued in bag order; other messages wait for the clouds before them."""

    def __init__(self, bag: Bag, parts: Parts | NoParts, engine: Engine, work: Callable[[Any], Message]) -> None:
        self._bag, self._parts, self._engine, self._work = bag, parts, engine, work
        self._queue: deque[_Waiting] = deque()
        self._clouds = self._bytes = 0  # in the queue: clouds, and bytes of other messages
        self._tally = Tally()

    def run(self, items: Iterator[Item]) -> Iterator[Tally]:
        number = 0
        for item in self._read(items):
            if item.cloud:
                self._queue.append(self._cloud(item, number))
                self._clouds += 1
                number += 1
            else:
                self._queue.append(_Waiting(item))
                self._bytes += len(item.raw)
            while self._queue and self._must_or_may_write():
                yield from self._write_first()
        while self._queue:
            yield from self._write_first()
        if number != self._bag.clouds:
            raise FormatError(
                f"{self._bag.path}: expected {self._bag.clouds} messages of {self._bag.topic}, found {number}; "
                "the bag is truncated or needs to be reindexed"
            )

    def _read(self, items: Iterator[Item]) -> Iterator[Item]:
        while True:
            with damage(self._bag.path, "cannot be read to its end"):
                item = next(items, None)
            if item is None:
                return
            yield item

    def _cloud(self, item: Item, number: int) -> _Waiting:
        found, without = self._parts.load(number), item._replace(raw=b"")
        if found is not None:
            return _Waiting(without, number, kept=found)
        where = f"{self._bag.path}: {self._bag.topic}, message {number}"
        return _Waiting(without, number, self._engine.submit(self._work, Large((item.raw, where))))

    def _must_or_may_write(self) -> bool:
        first = self._queue[0]
        if first.promise is None or first.promise.done():
            return True
        return self._clouds >= self._engine.window or self._bytes > _MOST_WAITING

    def _write_first(self) -> Iterator[Tally]:
        first = self._queue.popleft()
        if first.number < 0:
            self._bytes -= len(first.item.raw)
            first.item.write(first.item.raw)
            return
        message = first.kept or cast(Promise, first.promise).result()
        self._clouds -= 1
        if first.kept is None:
            self._parts.save(first.number, message)
        self._tally.add(message.points_in, message.points_out, message.why, kept=first.kept is not None)
        first.item.write(message.raw)
        yield self._tally


def _files(path: Path) -> list[list[Any]]:
    """Return the names, sizes and times of a bag's files, to detect changes."""
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
