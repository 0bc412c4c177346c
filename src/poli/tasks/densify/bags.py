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

from poli.data.datasets.bag_copy import Item, copy_of
from poli.data.datasets.bags import choose_topic, damage, open_reader
from poli.errors import FormatError
from poli.tasks.densify.clouds import densify_message
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.engines import Engine, Large, Promise
from poli.tasks.densify.report import Tally
from poli.tasks.densify.resume import (
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

_MOST_WAITING = 64 << 20  # bytes of other messages that wait for a cloud before them


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
        remove_finished(out)
        raise FormatError(f"{out}: exists already; remove it first, or give another name")
    run = describe_run(bag.path, config, topic=bag.topic, files=_files(bag.path))
    with workspace(out) as folder:
        parts = Parts(folder, run) if resumable else NoParts()
        temporary = folder / TEMPORARY / out.name
        work = partial(densify_message, config=config, ros2=bag.path.suffix != ".bag")
        with copy_of(bag.path, temporary, bag.topic) as items:
            yield from _Pass(bag, parts, engine, work).run(items)
        if out.is_dir():  # no folder takes the place of another at one stroke, as files do
            out.rename(folder / TEMPORARY / "before")
        mark_finished(folder)
        temporary.replace(out)


class _Waiting(NamedTuple):
    item: Item
    number: int = -1  # of clouds
    promise: Promise | None = None  # of clouds that are being computed
    kept: Message | None = None  # of clouds that an earlier run computed


class _Pass:
    """One way through the bag. Items wait in its order, those that are no clouds behind the clouds before them."""

    def __init__(self, bag: Bag, parts: Parts | NoParts, engine: Engine, work: Callable[[Any], Message]) -> None:
        self._bag, self._parts, self._engine, self._work = bag, parts, engine, work
        self._queue: deque[_Waiting] = deque()
        self._clouds = self._bytes = 0  # in the queue: clouds, and bytes of all else
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
                f"{self._bag.path}: {self._bag.clouds} messages of {self._bag.topic} are promised, {number} are there; "
                "the bag is cut off, or needs to be reindexed"
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
    """Names, sizes and times of a bag's files: whether it is still the bag it was."""
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
