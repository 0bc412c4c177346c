"""ROS 1 and ROS 2 bags (.bag, folders of sqlite3 or mcap, .mcap, .db3), read with rosbags."""

import os
import sqlite3
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from poli.errors import FormatError, InputError, MissingExtra, PoliError
from poli.io.atomic import is_of_the_disk
from poli.io.datasets.files import Dataset
from poli.io.limits import check_inflated, guard_rosbags
from poli.io.messages import LIVOX, TimeUnit, check_unit, decode_livox, scan_from_livox, scan_from_message
from poli.io.pointcloud2 import stamp_of_cloud
from poli.scan import Scan

_KINDS = {  # endings of bags: the first bytes, the name, and the tool that repairs them
    ".bag": (b"#ROSBAG V", "ROS 1 bag", "repair it with `rosbag reindex`"),
    ".mcap": (b"\x89MCAP", "ROS 2 bag (mcap)", "repair it with `mcap recover`"),
    ".db3": (b"SQLite format 3", "ROS 2 bag (sqlite3)", "repair it with `.recover` in sqlite3"),
}
ENDINGS = tuple(_KINDS)
CLOUD = "sensor_msgs/msg/PointCloud2"
_MOST_MESSAGES = 1 << 48
_DENSEST = 100  # bytes of messages per byte of an mcap file, beyond which its total size is limited


class BagDataset(Dataset):
    """The clouds of one topic, PointCloud2 or Livox' CustomMsg, in recording order. No poses.

    `topic` is required if several topics have clouds. Stamps are those of the headers, or the log times with `stamps="log"`.
    `time_unit` (s, ms, us or ns) is the unit of per-point times, required only if it is ambiguous.

    The bag stays open until `close()` or the end of a `with` block. Reading the scans in order is a single pass through the bag.
    Going back to an earlier scan restarts the pass there; skipping ahead reads the messages in between.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        topic: str | None = None,
        stamps: Literal["header", "log"] = "header",
        time_unit: TimeUnit | None = None,
    ) -> None:
        if stamps not in ("header", "log"):
            raise InputError(f"stamps is {stamps!r}; expected 'header' or 'log'")
        check_unit(time_unit)
        self.path = Path(path)
        self._by_header, self._unit = stamps == "header", time_unit
        self._reader = open_reader(self.path)
        self.close = weakref.finalize(self, self._reader.close)
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

    def _scan(self, row: int) -> Scan:
        if not self.close.alive:
            raise InputError(f"{self.path}: the bag is closed; open it again")
        where = f"{self.path}: {self.topic}, message {row}"
        with damage(self.path, f"cannot be read at message {row} of {self._count}"):
            try:
                connection, log_time, raw = self._message(row)
            except Exception:
                self._next = -1  # the next access starts a new pass and meets the same damage
                raise
            of_livox, ros2 = connection.msgtype in LIVOX, self.path.suffix != ".bag"
            cloud: Any = decode_livox(raw, ros2) if of_livox else decode_cloud(raw, ros2)
        header = cloud.stamp if of_livox else stamp_of_cloud(cloud)
        stamp = (header if self._by_header else None) or log_time
        self._check_order(row, stamp, where)
        return (scan_from_livox if of_livox else scan_from_message)(cloud, where, stamp, self._unit)

    def _message(self, row: int) -> tuple[Any, int, bytes]:
        if self._next < 0 or row < self._next:
            self._rewind(row)
        for message in self._messages:
            at, self._next = self._next, self._next + 1
            if at == len(self._times):
                self._times.append(message[1])
            if at == row:
                if at == self._count - 1 and next(self._messages, None) is not None:
                    raise FormatError(f"{self.path}: {self.topic} has more messages than the {self._count} listed; reindex it")
                return message
        counts = f"{self._count} messages of {self.topic} in the index, but the bag has {self._next}"
        raise FormatError(f"{self.path}: {counts}; it is truncated")

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
        if not self._stamps.get(row - 1, stamp - 1) < stamp < self._stamps.get(row + 1, stamp + 1):
            raise FormatError(f"{where}: its stamp {stamp} and that of its neighbor do not ascend; pass stamps='log'")


open_bag = BagDataset


def open_reader(path: Path) -> Any:
    """Open a bag with the readers of rosbags, which parse no message definitions, and check what they do not."""
    try:
        from rosbags import rosbag1, rosbag2
    except ImportError:
        raise MissingExtra("reading ROS bags", "ros") from None
    if not path.exists():
        raise FormatError(f"{path}: no such file or folder")
    if path.is_dir() and not (path / "metadata.yaml").is_file():
        raise FormatError(f"{path}: the folder has no metadata.yaml; create it with `ros2 bag reindex`")
    if path.is_file():
        if path.suffix not in ENDINGS:
            raise FormatError(f"{path}: expected a {', '.join(ENDINGS)} file or a folder with metadata.yaml")
        beginning, kind, _ = _KINDS[path.suffix]
        with path.open("rb") as file:
            if file.read(len(beginning)) != beginning:
                raise FormatError(f"{path}: not a {kind}: wrong first bytes; choose another file, or correct its extension")
    guard_rosbags()
    with damage(path, "cannot be opened"):
        _check_databases(path)
        reader: Any = rosbag1.Reader(path) if path.suffix == ".bag" else rosbag2.Reader(path)
        reader.open()
        try:
            _check_index(path, reader)
        except BaseException:
            reader.close()
            raise
    return reader


def _check_databases(path: Path) -> None:
    """Check that the tables are plain: views and generated columns can produce gigabytes from nothing, or never end."""
    for file in [path] if path.is_file() else sorted(path.iterdir()):
        if file.suffix != ".db3":
            continue
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as database:
            for table in ("messages", "topics"):
                kinds = [row[2] for row in database.execute("SELECT * FROM pragma_table_list WHERE name = ?", (table,))]
                if kinds != ["table"] or any(row[6] for row in database.execute("SELECT * FROM pragma_table_xinfo(?)", (table,))):
                    raise ValueError(f"'{table}' is not a plain table of this database")


def _check_index(path: Path, reader: Any) -> None:
    """Check topics and counts, which may come from metadata.yaml, and the total size of the chunks of mcap files.

    Chunks that overlap in time are inflated together, and an index may list a chunk repeatedly.
    """
    for connection in reader.connections:
        names, count = (connection.topic, connection.msgtype), connection.msgcount
        if not all(isinstance(name, str) for name in names) or not isinstance(count, int) or not 0 <= count < _MOST_MESSAGES:
            raise ValueError(f"invalid topic {names[0]!r} of type {names[1]!r} with {count!r} messages")
    storage = getattr(reader, "storage", None)  # of ROS 2: a file, or a folder of several
    files = getattr(storage, "storages", [storage])
    inflated = sum(chunk.uncompressed_size for file in files for chunk in getattr(file, "chunks", ()))
    packed = sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))
    if inflated > _DENSEST * packed:
        check_inflated(path, packed, inflated)


@cache
def _typestore(ros2: bool) -> Any:
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.LATEST if ros2 else Stores.ROS1_NOETIC)


def decode_cloud(raw: bytes, ros2: bool) -> Any:
    """Decode a serialized PointCloud2, which is the same message in all releases of ROS. Definitions in bags are not used."""
    store = _typestore(ros2)
    return store.deserialize_cdr(raw, CLOUD) if ros2 else store.deserialize_ros1(raw, CLOUD)


def choose_topic(reader: Any, path: Path, topic: str | None) -> str:
    """Return the topic with clouds: `topic`, or by default the only one."""
    types = {c.topic: c.msgtype for c in reader.connections}
    clouds = sorted(t for t, kind in types.items() if kind in (CLOUD, *LIVOX))
    if topic is None and len(clouds) == 1:
        return clouds[0]
    if topic in clouds:
        return str(topic)
    listed = ", ".join(clouds) or f"none (the topics are {', '.join(sorted(types)) or 'none'})"
    if topic is None and not clouds:
        raise InputError(f"{path}: no topic of type PointCloud2 or Livox CustomMsg; point cloud topics: {listed}")
    if topic is None:
        raise InputError(f"{path}: there are several point cloud topics: {listed}; choose one as `topic`")
    problem = f"has type {types[topic]}" if topic in types else "is not in this bag"
    raise InputError(f"{path}: topic {topic!r} {problem}; point cloud topics: {listed}")


@contextmanager
def damage(path: Path, problem: str) -> Iterator[None]:
    """Convert the errors of rosbags, sqlite3, lz4, zstd and struct on damaged bags to a FormatError that names the bag."""
    try:
        yield
    except FormatError as error:
        if str(path) in str(error):
            raise
        raise FormatError(f"{path}: {error}") from None
    except PoliError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_of_the_disk(error):  # raised while a copy is written
            raise
        remedy = _KINDS[path.suffix][2] if path.suffix in _KINDS else "`ros2 bag reindex` may help"
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise FormatError(f"{path}: {problem} ({why}); if the bag is truncated, {remedy}") from None
