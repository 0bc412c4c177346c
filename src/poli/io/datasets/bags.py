"""ROS 1 and ROS 2 bags (.bag, folders of sqlite3 or mcap, .mcap, .db3), read with rosbags."""

import os
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from poli.errors import FormatError, InputError, MissingExtra, PoliError
from poli.io.atomic import is_of_the_disk
from poli.io.datasets.bag_checks import (
    check_chunks,
    check_connections,
    check_database,
    check_definition,
    counting_definitions,
    guard_rosbags_texts,
    plain_name,
)
from poli.io.datasets.bag_codecs import guard_rosbags, inflating
from poli.io.datasets.files import beyond
from poli.io.datasets.protocol import Skipped, row_of
from poli.io.limits import Budget
from poli.io.messages import LIVOX, TimeUnit, check_unit, decode_livox, scan_from_livox, scan_from_message
from poli.io.pointcloud2 import is_pointcloud2, stamp_of_cloud
from poli.scan import Scan

ENDINGS = (".bag", ".mcap", ".db3")
_BEGINNINGS = {  # first bytes of such files, and their names
    ".bag": (b"#ROSBAG V", "ROS 1 bag"),
    ".mcap": (b"\x89MCAP", "ROS 2 bag (mcap)"),
    ".db3": (b"SQLite format 3", "ROS 2 bag (sqlite3)"),
}
CLOUD = "sensor_msgs/msg/PointCloud2"
_CLOUDS = (CLOUD, *LIVOX)
_REMEDY = {
    ".bag": "repair it with `rosbag reindex`",
    ".mcap": "repair it with `mcap recover`",
    ".db3": "repair it with `.recover` in sqlite3",
}


class BagDataset:
    """The clouds of one topic in recording order. The bag stays open until `close()` or the end of a `with` block.

    Reading the scans in order is a single pass through the bag. Going back to an earlier scan restarts the pass there; skipping
    ahead reads the messages in between.
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
                raise FormatError(f"{self.path}: topic {self.topic} has no messages")
        except BaseException:
            self.close()
            raise
        self.name = f"bag {self.path.name} {self.topic}"
        self._messages: Iterator[tuple[Any, int, bytes]] = iter(())
        self._next = -1  # number of the next message; -1 before the first pass
        self._times: list[int] = []  # log times of the messages passed so far
        self._stamps: dict[int, int] = {}  # of the scans read so far

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
            raise InputError(f"{self.path}: the bag is closed; open it again")
        where = f"{self.path}: {self.topic}, message {row}"
        with damage(self.path, f"cannot be read at message {row} of {self._count}", self._budget):
            try:
                connection, log_time, raw = self._message(row)
            except Exception:
                self._next = -1  # the next access starts a new pass and meets the same damage
                raise
            of_livox = connection.msgtype in LIVOX
            cloud: Any = decode_livox(raw, self._reader.is2) if of_livox else self._reader.deserialize(raw, connection.msgtype)
            if not of_livox and not is_pointcloud2(cloud):
                raise ValueError("the message is not a PointCloud2")
        header = cloud.stamp if of_livox else stamp_of_cloud(cloud)
        stamp = (header if self._by_header else None) or log_time
        self._check_order(row, stamp, where)
        scan = (scan_from_livox if of_livox else scan_from_message)(cloud, where, stamp, self._unit)
        return beyond(scan, self._min_range)

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
                        f"{self.path}: {self.topic} has more messages than the {self._count} in the index; reindex the bag"
                    )
                return message
        raise FormatError(
            f"{self.path}: the index lists {self._count} messages of {self.topic}, but the bag has {self._next}; it is truncated"
        )

    def _rewind(self, row: int) -> None:
        """Restart the pass at `row`, or at the first message if `row` is new or log times do not ascend (bags of several files)."""
        first = row if row < len(self._times) and self._times == sorted(self._times) else 0
        start = self._times[first] if first else None
        self._messages = self._reader.messages(connections=self._connections, start=start)
        if first:  # several messages may have the same log time
            same = first - bisect_left(self._times, self._times[first])
            next(islice(self._messages, same, same), None)
        self._next = first

    def _check_order(self, row: int, stamp: int, where: str) -> None:
        self._stamps[row] = stamp
        if not self._by_header:  # log times may be equal, header stamps may not
            return
        before, after = self._stamps.get(row - 1, stamp - 1), self._stamps.get(row + 1, stamp + 1)
        if not before < stamp < after:
            other = before if before >= stamp else after
            problem = f"its stamp {stamp} and that of its neighbor, {other}, do not ascend"
            raise FormatError(f"{where}: {problem}; pass stamps='log' to use the log times")


def open_bag(
    path: str | os.PathLike[str],
    topic: str | None = None,
    stamps: Literal["header", "log"] = "header",
    time_unit: TimeUnit | None = None,
    min_range: float = 0.0,
) -> BagDataset:
    """Open the clouds of a bag, PointCloud2 or Livox' CustomMsg; `topic` is required if several topics have clouds. No poses.

    Stamps are those of the headers, or the log times with `stamps="log"`. `time_unit` (s, ms, us or ns) is the unit of per-point
    times, required only if it is ambiguous.
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
        raise FormatError(f"{path}: the folder has no metadata.yaml; create it with `ros2 bag reindex`")
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
    """Check the first bytes of the file, for a clear message if the file is of another type."""
    if path.is_dir():
        return
    beginning, kind = _BEGINNINGS[path.suffix]
    with path.open("rb") as file:
        if file.read(len(beginning)) != beginning:
            raise FormatError(f"{path}: not a {kind}: wrong first bytes; choose another file, or correct its extension")


def _close(reader: Any) -> None:
    reader.close()


def choose_topic(reader: Any, path: Path, topic: str | None) -> str:
    types = {c.topic: c.msgtype for c in reader.connections}
    clouds = sorted(t for t, kind in types.items() if kind in _CLOUDS)
    if topic is None and len(clouds) == 1:
        return clouds[0]
    if topic in clouds:
        return str(topic)
    listed = ", ".join(clouds) or f"none (the topics are {', '.join(sorted(types)) or 'none'})"
    if topic is None and not clouds:
        raise InputError(f"{path}: no topic of type PointCloud2 or Livox CustomMsg; point cloud topics: {listed}")
    if topic is None:
        raise InputError(f"{path}: choose a topic; point cloud topics: {listed}; pass topic=")
    problem = f"has type {types[topic]}" if topic in types else "is not in this bag"
    raise InputError(f"{path}: topic {topic!r} {problem}; point cloud topics: {listed}")


@contextmanager
def damage(path: Path, problem: str, budget: Budget | None = None) -> Iterator[None]:
    """Convert the errors of rosbags, sqlite3, lz4, zstd, struct and assertions on damaged bags to a FormatError that names the bag.

    Decompression inside the `with` block counts against `budget`, or a new budget if None.
    """
    try:
        with inflating(budget or Budget(path)):
            yield
    except PoliError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_of_the_disk(error):  # raised while a copy is written
            raise
        if isinstance(error, UnicodeEncodeError):
            raise FormatError(f"{path}: the path is not UTF-8, as SQLite requires; rename the bag or its folders") from None
        remedy = _REMEDY.get(path.suffix, "`ros2 bag reindex` may help")
        raise FormatError(
            f"{path}: {problem} ({type(error).__name__}: {str(error)[:200]}); if the bag is truncated, {remedy}"
        ) from None
