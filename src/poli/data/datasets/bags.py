"""ROS 1 and ROS 2 recordings (.bag, folders of sqlite3 or mcap, .mcap, .db3) through rosbags."""

import os
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from poli.data.datasets.bag_checks import check_chunks, check_connections, check_database, check_definition, plain_name
from poli.data.datasets.bag_codecs import guard_rosbags, inflating
from poli.data.datasets.bag_texts import counting_definitions, guard_rosbags_texts
from poli.data.datasets.file_dataset import beyond
from poli.data.datasets.point_times import TimeUnit, check_unit
from poli.data.datasets.pointcloud2 import scan_from_message
from poli.data.datasets.protocol import Skipped, row_of
from poli.errors import FormatError, InputError, MissingExtra, PoliError
from poli.files.failures import is_of_the_disk
from poli.files.limits import Budget
from poli.pointcloud2 import is_pointcloud2, stamp_of_cloud
from poli.scan import Scan

ENDINGS = (".bag", ".mcap", ".db3")
_BEGINNINGS = {  # of such files, and what they are called
    ".bag": (b"#ROSBAG V", "ROS 1 bag"),
    ".mcap": (b"\x89MCAP", "ROS 2 bag of MCAP"),
    ".db3": (b"SQLite format 3", "ROS 2 bag of sqlite3"),
}
CLOUD = "sensor_msgs/msg/PointCloud2"
_REMEDY = {
    ".bag": "`rosbag reindex` saves what is left",
    ".mcap": "`mcap recover` saves what is left",
    ".db3": "sqlite3's `.recover` saves what is left",
}


class BagDataset:
    """The clouds of one topic in the order in which they were recorded. The bag stays open; `close()` or `with` closes it.

    Reading on from scan to scan is one pass through the bag. Going back to a scan that was read starts there again; going
    forward reads what lies between.
    """

    poses = None
    skipped: tuple[Skipped, ...] = ()

    def __init__(
        self,
        path: str | os.PathLike[str],
        topic: str | None = None,
        stamps: Literal["header", "log"] = "header",
        time_unit: TimeUnit | None = None,
        min_range: float = 0.0,
    ) -> None:
        self.path = Path(path)
        self._by_header, self._unit, self._min_range = stamps == "header", time_unit, min_range
        self._budget = Budget(self.path)
        self._reader = open_reader(self.path)
        self.close = weakref.finalize(self, _close, self._reader)
        try:
            self.topic = choose_topic(self._reader, self.path, topic)
            self._connections = [c for c in self._reader.connections if c.topic == self.topic]
            self._count = sum(c.msgcount for c in self._connections)
            if not self._count:
                raise FormatError(f"{self.path}: topic {self.topic} holds no messages")
        except BaseException:
            self.close()
            raise
        self.name = f"bag {self.path.name} {self.topic}"
        self._messages: Iterator[tuple[Any, int, bytes]] = iter(())
        self._next = -1  # which message comes next; -1 before the first pass
        self._times: list[int] = []  # recording times of the messages that were passed, from the first
        self._stamps: dict[int, int] = {}  # of the scans that were read

    def __enter__(self) -> "BagDataset":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Scan]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"BagDataset({self.name}, {len(self)} scans)"

    def __getitem__(self, index: int, /) -> Scan:
        row = row_of(index, len(self))
        if not self.close.alive:
            raise InputError(f"{self.path}: the bag was closed; open it again")
        where = f"{self.path}: {self.topic}, message {row}"
        with damage(self.path, f"cannot be read at message {row} of {self._count}", self._budget):
            try:
                connection, log_time, raw = self._message(row)
            except Exception:
                self._next = -1  # the pass is broken; another look starts a new one and meets the same damage
                raise
            cloud: Any = self._reader.deserialize(raw, connection.msgtype)
            if not is_pointcloud2(cloud):
                raise ValueError("a message that is no PointCloud2")
        stamp = (stamp_of_cloud(cloud) if self._by_header else None) or log_time
        self._check_order(row, stamp, where)
        return beyond(scan_from_message(cloud, where, stamp, self._unit), self._min_range)

    def _message(self, row: int) -> tuple[Any, int, bytes]:
        if self._next < 0 or row < self._next:
            self._rewind(row)
        for message in self._messages:
            at, self._next = self._next, self._next + 1
            if at == len(self._times):
                self._times.append(message[1])
            if at == row:
                if at == self._count - 1 and next(self._messages, None) is not None:
                    raise FormatError(
                        f"{self.path}: {self.topic} holds more messages than the {self._count} promised; reindex the bag"
                    )
                return message
        raise FormatError(
            f"{self.path}: {self._count} messages of {self.topic} are promised, {self._next} are there; the bag is cut off"
        )

    def _rewind(self, row: int) -> None:
        """Place the pass at `row`, or at the start if `row` is new or recording times do not ascend (bags of several files)."""
        first = row if row < len(self._times) and self._times == sorted(self._times) else 0
        start = self._times[first] if first else None
        self._messages = self._reader.messages(connections=self._connections, start=start)
        if first:  # several messages may have the same recording time
            same = first - bisect_left(self._times, self._times[first])
            next(islice(self._messages, same, same), None)
        self._next = first

    def _check_order(self, row: int, stamp: int, where: str) -> None:
        self._stamps[row] = stamp
        if not self._by_header:  # recorded at the same time is possible, stamped at the same time is not
            return
        before, after = self._stamps.get(row - 1, stamp - 1), self._stamps.get(row + 1, stamp + 1)
        if not before < stamp < after:
            other = before if before >= stamp else after
            raise FormatError(
                f"{where}: its stamp {stamp} and its neighbor's, {other}, do not ascend",
                argument="stamps", value="log", remedy="pass {argument} for recording times",
            )  # fmt: skip


def open_bag(
    path: str | os.PathLike[str],
    topic: str | None = None,
    stamps: Literal["header", "log"] = "header",
    time_unit: TimeUnit | None = None,
    min_range: float = 0.0,
) -> BagDataset:
    """The PointCloud2 messages of a recording; `topic` is needed if several topics have them. There are no poses.

    Stamps are those of the headers, or the times of recording with `stamps="log"`. `time_unit` (s, ms, us or ns) says what
    per-point times count, where that is not plain.
    """
    if stamps not in ("header", "log"):
        raise InputError(f"stamps is {stamps!r}; expected 'header' or 'log'")
    check_unit(time_unit)
    return BagDataset(path, topic, stamps, time_unit, min_range)


def open_reader(path: Path) -> Any:
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise MissingExtra("reading ROS bags", "ros") from None
    if not path.exists():
        raise FormatError(f"{path}: no such file or folder")
    if path.is_file() and path.suffix not in ENDINGS:
        raise FormatError(f"{path}: expected a {', '.join(ENDINGS)} file or a folder with metadata.yaml")
    if path.is_dir() and not (path / "metadata.yaml").is_file():
        raise FormatError(f"{path}: no metadata.yaml in this folder; `ros2 bag reindex` makes it")
    _check_beginning(path)
    guard_rosbags()
    guard_rosbags_texts()
    with damage(path, "cannot be opened"), plain_name(path) as plain, counting_definitions():
        check_database(plain)
        reader = AnyReader([plain], default_typestore=get_typestore(Stores.LATEST))
        reader.open()
        try:
            check_connections(reader.connections)
            check_chunks(path, reader)
            check_definition(reader.typestore)
        except BaseException:
            reader.close()
            raise
    return reader


def _check_beginning(path: Path) -> None:
    """What is of another kind is said to be, in our words and not in those of whatever trips over it."""
    if path.is_dir():
        return
    beginning, kind = _BEGINNINGS[path.suffix]
    with path.open("rb") as file:
        if file.read(len(beginning)) != beginning:
            raise FormatError(f"{path}: is no {kind}, it does not begin as one; give one, or rename it to what it is")


def _close(reader: Any) -> None:
    reader.close()


def choose_topic(reader: Any, path: Path, topic: str | None) -> str:
    types = {c.topic: c.msgtype for c in reader.connections}
    clouds = sorted(t for t, kind in types.items() if kind == CLOUD)
    if topic is None and len(clouds) == 1:
        return clouds[0]
    if topic in clouds:
        return str(topic)
    listed = ", ".join(clouds) or f"none (the topics are {', '.join(sorted(types)) or 'none'})"
    if topic is None:
        raise InputError(f"{path}: which topic? PointCloud2 topics: {listed}", argument="topic")
    problem = f"is of type {types[topic]}" if topic in types else "is not in this bag"
    raise InputError(f"{path}: topic {topic!r} {problem}. PointCloud2 topics: {listed}")


@contextmanager
def damage(path: Path, problem: str, budget: Budget | None = None) -> Iterator[None]:
    """What rosbags, sqlite3, lz4, zstd, struct and assertions raise on damaged bags, as one error that names the bag.

    What is inflated inside counts against `budget`, one of its own if none is given.
    """
    try:
        with inflating(budget or Budget(path)):
            yield
    except PoliError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_of_the_disk(error):  # a copy is being written meanwhile
            raise
        if isinstance(error, UnicodeEncodeError):
            raise FormatError(f"{path}: its name is not UTF-8, which SQLite needs; rename it, or a folder above it") from None
        remedy = _REMEDY.get(path.suffix, "`ros2 bag reindex` may help")
        raise FormatError(
            f"{path}: {problem} ({type(error).__name__}: {str(error)[:200]}); if the bag is cut off, {remedy}"
        ) from None
