"""What a bag must be before its messages are read. What is wrong is a ValueError; `bags.damage` says of which bag."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from poli.files.limits import check_inflated

_TABLES = ("messages", "topics")
_MOST_MESSAGES = 1 << 48
_CLOUD, _FIELD, _HEADER = "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/PointField", "std_msgs/msg/Header"
_PLAIN = re.compile(r"[\w /.,:;@+=~()\[\]-]*", re.ASCII)


@contextmanager
def plain_name(path: Path) -> Iterator[Path]:
    """The bag under a name that sqlite can open: rosbags makes an address of it, in which ? # % and odd bytes mean something else.

    The link may go as soon as the bag is open.
    """
    if path.suffix != ".db3" or _PLAIN.fullmatch(str(path)):
        yield path
        return
    with TemporaryDirectory() as folder:
        link = Path(folder) / "bag.db3"
        link.symlink_to(path.resolve())
        yield link


def check_database(path: Path) -> None:
    """Its tables hold what is on the disk: columns and views that are computed can make gigabytes of nothing, or never end."""
    files = [path] if path.is_file() else sorted(path.glob("*.db3"))
    for file in files:
        if file.suffix != ".db3":
            continue
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as database:
            for table in _TABLES:
                kinds = [row[2] for row in database.execute("SELECT * FROM pragma_table_list WHERE name = ?", (table,))]
                if kinds != ["table"]:
                    raise ValueError(f"'{table}' is no table of this database")
                if any(row[6] for row in database.execute("SELECT * FROM pragma_table_xinfo(?)", (table,))):
                    raise ValueError(f"table '{table}' has columns that are computed")


def check_chunks(path: Path, reader: Any) -> None:
    """An index may name a chunk any number of times, and those of one time are inflated together."""
    storages = (
        [storage for one in reader.readers for storage in getattr(one.storage, "storages", [one.storage])] if reader.is2 else []
    )
    promised = sum(chunk.uncompressed_size for storage in storages for chunk in getattr(storage, "chunks", ()))
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    check_inflated(path, sum(file.stat().st_size for file in files), promised)


def check_connections(connections: Iterable[Any]) -> None:
    """Names and counts come from wherever the bag has them, metadata.yaml for one."""
    for connection in connections:
        names, count = (connection.topic, connection.msgtype), connection.msgcount
        if not all(isinstance(name, str) for name in names) or not isinstance(count, int) or not 0 <= count < _MOST_MESSAGES:
            raise ValueError(f"topic {names[0]!r} of type {names[1]!r} with {count!r} messages")


def check_definition(store: Any) -> None:
    """Bags define their messages themselves. A cloud that is defined otherwise than ROS does would be read as something else."""
    for name, definitions in _known_definitions().items():
        if name in store.fielddefs and store.fielddefs[name][1] not in definitions:
            raise ValueError(f"{name} is not defined as ROS defines it")


@cache
def _known_definitions() -> dict[str, list[Any]]:
    from rosbags.typesys import Stores, get_typestore

    stores = [get_typestore(which) for which in (Stores.LATEST, Stores.ROS1_NOETIC)]
    return {name: [ros.fielddefs[name][1] for ros in stores] for name in (_CLOUD, _FIELD, _HEADER)}
