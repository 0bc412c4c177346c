"""Copy a ROS 1 bag: topics, types, publishers, times and compression are preserved; the rosbags writer forms new chunks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from poli.data.datasets.bag_codecs import compress_ros1_lz4
from poli.data.datasets.bag_copy.item import Item
from poli.data.datasets.bags import open_reader


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
        if self._reader.stack is not None:
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

    chunks = list(reader.readers[0].chunks.values())
    for name in ("bz2", "lz4"):
        if chunks and chunks[0].decompressor is decompressors.get(name):
            writer.set_compression(writer.CompressionFormat[name.upper()])
            if name == "lz4":
                writer.compressor = compress_ros1_lz4  # ROS cannot read the frames of rosbags
