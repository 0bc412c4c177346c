"""A ROS 2 database like another: every table, row and index as it is, but for the data of the clouds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from poli.data.datasets.bag_copy.item import Item
from poli.errors import FormatError


class SqliteCopy:
    def __init__(self, path: Path, out: Path, topic: str) -> None:
        # As rosbags opens it: nothing is written beside a bag, not even a lock.
        self._path = path
        self._in = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        self._out, self._topic = sqlite3.connect(out), topic

    def close(self) -> None:
        self._in.close()
        self._out.close()

    def items(self) -> Iterator[Item]:
        for name in ("page_size", "user_version"):
            self._out.execute(f"PRAGMA {name} = {self._in.execute(f'PRAGMA {name}').fetchone()[0]}")
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
        self._out.execute(statement)
        if rows:
            found = self._in.execute(f'SELECT * FROM "{table}"')
            self._out.executemany(_insertion(table, len(found.description)), found)

    def _write(self, insert: str, before: tuple, after: tuple, raw: bytes) -> None:
        with self._writing():
            self._out.execute(insert, (*before, raw, *after))

    def _finish(self, _: bytes) -> None:
        with self._writing():
            for (statement,) in self._in.execute("SELECT sql FROM sqlite_master WHERE type <> 'table' AND sql IS NOT NULL"):
                self._out.execute(statement)
            self._out.commit()
        self.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A disk that is full, for one, is no OSError of sqlite's."""
        try:
            yield
        except sqlite3.Error as error:
            raise FormatError(f"{self._path}: its copy cannot be written: {error}; is the disk full?") from None


def _insertion(table: str, columns: int) -> str:
    return f'INSERT INTO "{table}" VALUES ({", ".join("?" * columns)})'
