"""Bags: the clouds of one topic denser, every other message byte for byte as it is.

One pass, in the order of the bag, with a bounded number of messages under way. The new bag is written in the hidden folder beside
OUT and takes its name at the end. Until then every finished cloud is kept there as well: a run that was killed is started again
with the same command, writes what is finished from there at the speed of the disk, and computes on. Since a cloud depends on
nothing but its message, the configuration and this release, the bytes are those of a run that was never stopped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from poli.data.datasets.bag_copy import BagCopy, copy_of
from poli.data.datasets.bags import choose_topic, damage, open_reader
from poli.errors import FormatError
from poli.tasks.densify.clouds import densify_message
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.engines import Engine, Large, Promise
from poli.tasks.densify.identity import check_apart, describe_run
from poli.tasks.densify.parts import Message, NoParts, Parts
from poli.tasks.densify.tally import Tally
from poli.tasks.densify.workspace import TEMPORARY, workspace

_MOST_WAITING = 64 << 20  # bytes of messages of other topics that wait for a cloud before them


class Bag(NamedTuple):
    """A bag to densify, looked at and found sound."""

    path: Path
    topic: str
    clouds: int  # of the topic


def look_into_bag(path: Path, out: Path, topic: str | None = None) -> Bag:
    check_apart(path, out)
    if path.is_file() and out.suffix != path.suffix:
        raise FormatError(f"{out}: the input is a {path.suffix} file; let the output end so too")
    if path.is_dir() and out.suffix in (".bag", ".db3", ".mcap"):
        raise FormatError(f"{out}: the input is a folder, and so will be the output; give a name without {out.suffix}")
    with closing(open_reader(path)) as reader:
        chosen = choose_topic(reader, path, topic)
        return Bag(path, chosen, sum(c.msgcount for c in reader.connections if c.topic == chosen))


def densify_bag(
    bag: Bag, out: Path, config: DensifyConfig, engine: Engine, resumable: bool = True, overwrite: bool = False
) -> Generator[Tally, None, None]:
    """Do it, and tell what is done after every cloud. Not `resumable`: no cloud is kept twice, at the price of starting anew."""
    if out.exists() and not overwrite:
        raise FormatError(f"{out}: exists already; remove it first, or give another name")
    run = describe_run(bag.path, config, topic=bag.topic, files=_files(bag.path))
    with workspace(out) as folder:
        parts = Parts(folder, run) if resumable else NoParts()
        temporary = folder / TEMPORARY / out.name
        with closing(open_reader(bag.path)) as reader:
            work = partial(densify_message, config=config, ros2=reader.is2)
            with copy_of(reader, bag.path, temporary) as copy:
                yield from _Pass(bag, copy, parts, engine, work).run(reader)
        if out.exists():
            out.rename(folder / TEMPORARY / "before")
        temporary.rename(out)


class _Waiting(NamedTuple):
    connection: Any
    time: int
    raw: bytes  # of messages of other topics
    number: int = -1  # of clouds
    promise: Promise | None = None  # of clouds that are being computed
    kept: Message | None = None  # of clouds that an earlier run computed


class _Pass:
    """One way through the bag. Messages wait in its order, those of other topics behind the clouds before them."""

    def __init__(self, bag: Bag, copy: BagCopy, parts: Parts | NoParts, engine: Engine, work: Callable[[Any], Message]) -> None:
        self._bag, self._copy, self._parts, self._engine, self._work = bag, copy, parts, engine, work
        self._queue: deque[_Waiting] = deque()
        self._clouds = self._bytes = 0  # in the queue: clouds, and bytes of other messages
        self._tally = Tally()

    def run(self, reader: Any) -> Iterator[Tally]:
        number = 0
        for connection, time, raw in _messages(reader, self._bag.path):
            if connection.topic == self._bag.topic:
                self._queue.append(self._cloud(connection, time, raw, number))
                self._clouds += 1
                number += 1
            else:
                self._queue.append(_Waiting(connection, time, raw))
                self._bytes += len(raw)
            while self._queue and self._must_or_may_write():
                yield from self._write_first()
        while self._queue:
            yield from self._write_first()
        if number != self._bag.clouds:
            raise FormatError(
                f"{self._bag.path}: {self._bag.clouds} messages of {self._bag.topic} are promised, {number} are there; "
                "the bag is cut off, or needs to be reindexed"
            )

    def _cloud(self, connection: Any, time: int, raw: bytes, number: int) -> _Waiting:
        found = self._parts.load(number)
        if found is not None:
            return _Waiting(connection, time, b"", number, kept=found)
        where = f"{self._bag.path}: {self._bag.topic}, message {number}"
        return _Waiting(connection, time, b"", number, self._engine.submit(self._work, Large((raw, where))))

    def _must_or_may_write(self) -> bool:
        first = self._queue[0]
        if first.promise is None or first.promise.done():
            return True
        return self._clouds >= self._engine.window or self._bytes > _MOST_WAITING

    def _write_first(self) -> Iterator[Tally]:
        first = self._queue.popleft()
        if first.number < 0:
            self._bytes -= len(first.raw)
            self._copy.write(first.connection, first.time, first.raw)
            return
        message = first.kept or cast(Promise, first.promise).result()
        self._clouds -= 1
        if first.kept is None:
            self._parts.save(first.number, message)
        self._tally.add(message.points_in, message.points_out, kept=first.kept is not None)
        self._copy.write(first.connection, first.time, message.raw)
        yield self._tally


def _messages(reader: Any, path: Path) -> Iterator[tuple[Any, int, bytes]]:
    messages = iter(reader.messages())
    while True:
        with damage(path, "cannot be read to its end"):
            message = next(messages, None)
        if message is None:
            return
        yield message


def _files(path: Path) -> list[list[Any]]:
    """Names, sizes and times of a bag's files: whether it is still the bag it was."""
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
