"""A bag like another: the same kind, topics, types, quality of service and compression, for messages to be written to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from poli.errors import FormatError

_OLDEST, _NEWEST = 8, 9  # versions of ROS 2 bags that rosbags writes


class BagCopy:
    """`write` messages of the bag that `reader` reads, as they are or changed."""

    def __init__(self, writer: Any, reader: Any) -> None:
        self._writer, self._connections = writer, {}
        for connection in reader.connections:
            self._connections[_key(connection)] = self._add(connection, reader)

    def write(self, connection: Any, time: int, raw: bytes) -> None:
        self._writer.write(self._connections[_key(connection)], time, raw)

    def _add(self, connection: Any, reader: Any) -> Any:
        for known in self._writer.connections:  # a recorder that was restarted may have noted the same publisher twice
            if (known.topic, known.msgtype, known.ext) == (connection.topic, connection.msgtype, connection.ext):
                return known
        if not reader.is2:
            return self._writer.add_connection(
                connection.topic,
                connection.msgtype,
                msgdef=connection.msgdef.data,
                md5sum=connection.digest,
                callerid=connection.ext.callerid,
                latching=connection.ext.latching,
            )
        definition, digest = self._definition(connection, reader)
        return self._writer.add_connection(
            connection.topic,
            connection.msgtype,
            msgdef=definition,
            rihs01=digest,
            serialization_format=connection.ext.serialization_format,
            offered_qos_profiles=connection.ext.offered_qos_profiles,
        )

    def _definition(self, connection: Any, reader: Any) -> tuple[str, str]:
        """What the bag says of a type, or else what is known of it, or else nothing: older bags do not say, and need not."""
        from rosbags.interfaces import MessageDefinitionFormat

        told = connection.msgdef
        kind, known = connection.msgtype, connection.msgtype in reader.typestore.fielddefs
        digest = connection.digest or (reader.typestore.hash_rihs01(kind) if known else "unknown")
        if told.format == MessageDefinitionFormat.MSG or told.data.startswith("=" * 80 + "\nIDL: "):
            return told.data, digest
        if known:
            return reader.typestore.generate_msgdef(kind, ros_version=2)[0], digest
        if hasattr(self._writer.storage, "schemas"):
            raise FormatError(
                f"topic {connection.topic}: the mcap file does not define its type {kind}; filter the topic out first"
            )
        self._writer.added_types.add(kind)  # so that no empty definition is noted
        return "", digest


@contextmanager
def copy_of(reader: Any, path: Path, out: Path) -> Iterator[BagCopy]:
    """Write a bag like that of `reader`, which lies at `path`, to `out`: a file if `path` is one, else a folder."""
    writer = _writer1(reader, out) if not reader.is2 else _writer2(reader, path, out)
    with writer:
        yield BagCopy(writer, reader)
    if reader.is2 and path.is_file():  # rosbags makes a folder of it
        folder = out.with_name(out.name + ".folder")
        out.rename(folder)
        next(file for file in folder.iterdir() if file.suffix == path.suffix).rename(out)


def _writer1(reader: Any, out: Path) -> Any:
    from rosbags.rosbag1 import Writer
    from rosbags.rosbag1.reader import decompressors

    writer = Writer(out)
    chunks = list(reader.readers[0].chunks.values())
    for name in ("bz2", "lz4"):
        if chunks and chunks[0].decompressor is decompressors.get(name):
            writer.set_compression(Writer.CompressionFormat[name.upper()])
    return writer


def _writer2(reader: Any, path: Path, out: Path) -> Any:
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

    storage = reader.readers[0].storage
    parts = getattr(storage, "storages", None) or [storage]
    mcap = hasattr(parts[0], "schemas")
    writer = Writer(out, version=_version(path), storage_plugin=StoragePlugin.MCAP if mcap else StoragePlugin.SQLITE3)
    mode = storage.metadata.compression_mode
    if mcap and any(chunk.compression for chunk in parts[0].chunks[:1]):
        mode = "storage"
    if mode in ("file", "message", "storage"):
        writer.set_compression(CompressionMode[mode.upper()], CompressionFormat.ZSTD)
    for key, value in (storage.metadata.custom or {}).items():
        writer.set_custom_data(str(key), str(value))
    return writer


def _version(path: Path) -> Any:
    """That of the bag: systems before ROS 2 Jazzy do not read version 9."""
    try:
        found = re.search(r"^\s*version:\s*(\d+)", (path / "metadata.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return min(max(int(found[1]) if found else _OLDEST, _OLDEST), _NEWEST)


def _key(connection: Any) -> tuple[int, int]:
    return id(connection.owner), connection.id
