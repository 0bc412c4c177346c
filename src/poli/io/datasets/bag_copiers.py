"""The unit of a bag copy."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from poli.io.datasets.bag_codecs import compress_ros1_lz4
from poli.io.datasets.bags import open_reader


class Item(NamedTuple):
    """A message or another record of the file. `write` writes it, or its replacement, to the copy.

    Items must be written in order, each exactly once.
    """

    raw: bytes
    cloud: bool  # whether it is a message of the chosen topic
    write: Callable[[bytes], None]


# --- Copy a ROS 1 bag: topics, types, publishers, times and compression are preserved; the rosbags writer forms new chunks.


class Rosbag1Copy:
    def __init__(self, path: Path, out: Path, topic: str) -> None:
        from rosbags.rosbag1 import Writer

        self._reader, self._topic = open_reader(path), topic
        self._writer = Writer(out)
        _set_compression(self._writer, self._reader)
        self._writer.open()
        self._connections = {connection.id: self._add(connection) for connection in self._reader.connections}

    def close(self) -> None:
        if self._writer.bio is not None:
            self._writer.abort()
        if self._reader.bio is not None:
            self._reader.close()

    def items(self) -> Iterator[Item]:
        for connection, time, raw in self._reader.messages():
            yield Item(raw, connection.topic == self._topic, partial(self._writer.write, self._connections[connection.id], time))
        yield Item(b"", False, self._finish)

    def _finish(self, _: bytes) -> None:
        self._writer.close()
        self.close()

    def _add(self, connection: Any) -> Any:
        for known in self._writer.connections:  # a restarted recorder may list a publisher twice
            if (known.topic, known.msgtype, known.ext) == (connection.topic, connection.msgtype, connection.ext):
                return known
        return self._writer.add_connection(
            connection.topic,
            connection.msgtype,
            msgdef=connection.msgdef.data,
            md5sum=connection.digest,
            callerid=connection.ext.callerid,
            latching=connection.ext.latching,
        )


def _set_compression(writer: Any, reader: Any) -> None:
    from rosbags.rosbag1.reader import decompressors

    chunks = list(reader.chunks.values())
    for name in ("bz2", "lz4"):
        if chunks and chunks[0].decompressor is decompressors.get(name):
            writer.set_compression(writer.CompressionFormat[name.upper()])
            if name == "lz4":
                writer.compressor = compress_ros1_lz4  # ROS cannot read the frames of rosbags


# --- Copy a ROS 2 sqlite3 database: tables, rows and indexes are preserved, except for the data of the clouds.


class SqliteCopy:
    def __init__(self, path: Path, out: Path, topic: str) -> None:
        # Immutable, as rosbags opens it: no files are written next to the bag, not even a lock.
        self._path = path
        self._in = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        self._out, self._topic = sqlite3.connect(out), topic

    def close(self) -> None:
        self._in.close()
        self._out.close()

    def items(self) -> Iterator[Item]:
        for name in ("page_size", "user_version"):
            self._do(f"PRAGMA {name} = {self._in.execute(f'PRAGMA {name}').fetchone()[0]}")
        for (table,) in self._in.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"):
            self._copy(table, rows=table != "messages")
        clouds = {number for (number,) in self._in.execute("SELECT id FROM topics WHERE name = ?", (self._topic,))}
        columns = [row[1] for row in self._in.execute("PRAGMA table_info(messages)")]
        topic, data = columns.index("topic_id"), columns.index("data")
        insert = _insertion("messages", len(columns))
        for row in self._in.execute("SELECT * FROM messages ORDER BY id"):
            write = partial(self._write, insert, row[:data], row[data + 1 :])
            yield Item(row[data], row[topic] in clouds, write)
        yield Item(b"", False, self._finish)

    def _copy(self, table: str, rows: bool) -> None:
        (statement,) = self._in.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
        self._do(statement)
        if rows:
            found = self._in.execute(f'SELECT * FROM "{table}"')
            insert = _insertion(table, len(found.description))
            for row in found:
                self._do(insert, row)

    def _write(self, insert: str, before: tuple, after: tuple, raw: bytes) -> None:
        self._do(insert, (*before, raw, *after))

    def _finish(self, _: bytes) -> None:
        for (statement,) in self._in.execute("SELECT sql FROM sqlite_master WHERE type <> 'table' AND sql IS NOT NULL"):
            self._do(statement)
        with _on_disk():
            self._out.commit()
        self.close()

    def _do(self, statement: str, values: Iterable[object] = ()) -> None:
        """Write to the copy. sqlite errors do not distinguish reading from writing."""
        with _on_disk():
            self._out.execute(statement, tuple(values))


@contextmanager
def _on_disk() -> Iterator[None]:
    """Report a full disk as OSError, like the other writers."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
            raise OSError(errno.ENOSPC, str(error)) from None
        raise


def _insertion(table: str, columns: int) -> str:
    return f'INSERT INTO "{table}" VALUES ({", ".join("?" * columns)})'
