"""Copy a ROS 2 sqlite3 database: tables, rows and indexes are preserved, except for the data of the clouds."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from poli.data.datasets.bag_copy.item import Item


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
