"""Validate bags before their messages are read. The checks raise ValueError; `bags.damage` adds the name of the bag."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from poli.io.limits import check_inflated
from poli.io.messages import LIVOX, MESSAGE_TEXT, POINT_TEXT

_TABLES = ("messages", "topics")
_MOST_MESSAGES = 1 << 48
_OF_ROS = ("sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/PointField", "std_msgs/msg/Header")
_PLAIN = re.compile(r"[\w /.,:;@+=~()\[\]-]*", re.ASCII)


@contextmanager
def plain_name(path: Path) -> Iterator[Path]:
    """Link the bag under a plain name: rosbags opens sqlite files by URI, in which ? # % and non-ASCII bytes have a meaning.

    The link is not needed once the bag is open.
    """
    if path.suffix != ".db3" or _PLAIN.fullmatch(str(path)):
        yield path
        return
    with TemporaryDirectory() as folder:
        link = Path(folder) / "bag.db3"
        link.symlink_to(path.resolve())
        yield link


def check_database(path: Path) -> None:
    """Check that the tables are plain: views and generated columns can produce gigabytes from nothing, or never end."""
    files = [path] if path.is_file() else sorted(path.glob("*.db3"))
    for file in files:
        if file.suffix != ".db3":
            continue
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as database:
            for table in _TABLES:
                kinds = [row[2] for row in database.execute("SELECT * FROM pragma_table_list WHERE name = ?", (table,))]
                if kinds != ["table"]:
                    raise ValueError(f"'{table}' is not a table of this database")
                if any(row[6] for row in database.execute("SELECT * FROM pragma_table_xinfo(?)", (table,))):
                    raise ValueError(f"table '{table}' has generated columns")


def check_chunks(path: Path, reader: Any) -> None:
    """Check the total size of the chunks: an index may list a chunk repeatedly, and overlapping ones are inflated together."""
    storages = (
        [storage for one in reader.readers for storage in getattr(one.storage, "storages", [one.storage])] if reader.is2 else []
    )
    promised = sum(chunk.uncompressed_size for storage in storages for chunk in getattr(storage, "chunks", ()))
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    check_inflated(path, sum(file.stat().st_size for file in files), promised)


def check_connections(connections: Iterable[Any]) -> None:
    """Check the types of topic names and message counts, which may come from metadata.yaml."""
    for connection in connections:
        names, count = (connection.topic, connection.msgtype), connection.msgcount
        if not all(isinstance(name, str) for name in names) or not isinstance(count, int) or not 0 <= count < _MOST_MESSAGES:
            raise ValueError(f"invalid topic {names[0]!r} of type {names[1]!r} with {count!r} messages")


def check_definition(store: Any) -> None:
    """Check that the bag defines its cloud messages as ROS and Livox do; otherwise they would be misread."""
    for name, definitions in _known_definitions().items():
        if name in store.fielddefs and store.fielddefs[name][1] not in definitions:
            raise ValueError(f"the definition of {name} differs from that of {'ROS' if name in _OF_ROS else 'Livox'}")


@cache
def _known_definitions() -> dict[str, list[Any]]:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    stores = [get_typestore(which) for which in (Stores.LATEST, Stores.ROS1_NOETIC)]
    known = {name: [ros.fielddefs[name][1] for ros in stores] for name in _OF_ROS}
    for message in LIVOX:
        for name, text in ((message, MESSAGE_TEXT), (message.replace("CustomMsg", "CustomPoint"), POINT_TEXT)):
            known[name] = [get_types_from_msg(text, name)[name][1]]
    return known


# --- Limits for the texts in bags: YAML and message definitions.
#
# Their parsers are written in Python: nested brackets take quadratic time, and a definition of a few megabytes takes minutes.


_DEEPEST = 64  # nested brackets; QoS profiles and metadata have three
_LARGEST = 8 << 20  # bytes of YAML
_MOST_LINES = 40_000  # of all definitions of a bag, without comments; a whole robot needs a tenth
_FIELD = re.compile(r"^[ \t]*[^#\s/=]", re.MULTILINE)

_lines: ContextVar[list[int]] = ContextVar("lines")


@contextmanager
def counting_definitions() -> Iterator[None]:
    """Count the definitions parsed inside the `with` block as those of one bag."""
    token = _lines.set([0])
    try:
        yield
    finally:
        _lines.reset(token)


@cache
def guard_rosbags_texts() -> None:
    """Limit the texts that rosbags parses, for the lifetime of this process."""
    from rosbags.highlevel import anyreader
    from rosbags.rosbag2 import metadata, reader

    for module in (metadata, reader):
        vars(module)["YAML"] = shallow_yaml
    for name in ("get_types_from_msg", "get_types_from_idl"):
        setattr(anyreader, name, _counted(getattr(anyreader, name)))


def shallow_yaml(**options: Any) -> Any:
    """Return a ruamel YAML parser whose `load` rejects deeply nested or large text."""
    from ruamel.yaml import YAML

    parser: Any = YAML(**options)
    load = parser.load
    parser.load = lambda text: load(_checked(text))
    return parser


def _checked(text: str) -> str:
    if len(text) > _LARGEST:
        raise ValueError(f"YAML of {len(text)} characters; the limit is {_LARGEST}")
    depth = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth = max(0, depth + (1 if bracket in "[{" else -1))
        if depth > _DEEPEST:
            raise ValueError(f"YAML with more than {_DEEPEST} nested brackets")
    return text


def _counted(parse: Callable[..., Any]) -> Callable[..., Any]:
    def counted(text: str, *rest: Any) -> Any:
        lines = _lines.get([0])
        lines[0] += len(_FIELD.findall(text))
        if lines[0] > _MOST_LINES:
            raise ValueError(f"the message definitions have more than {_MOST_LINES} lines")
        return parse(text, *rest)

    return counted
