"""Copy a bag and replace its clouds: same file names, all other content unchanged.

rosbags writes the copies of ROS 1 bags, and mcap those of mcap files: the messages are the same, in other chunks. A database is
copied as a file, and the clouds in it are updated.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeAlias

from poli.errors import MissingExtra
from poli.io.datasets.bags import open_reader
from poli.io.limits import inflate, zstd

_METADATA = "metadata.yaml"


class Item(NamedTuple):
    """A message or another record of a bag. `write` writes it, or its replacement, to the copy."""

    raw: bytes
    cloud: bool  # whether it is a message of the chosen topic
    write: Callable[[bytes], None]


Items: TypeAlias = Generator[Item | None, None, None]


def copy_of(path: Path, out: Path, topic: str) -> Items:
    """Yield the items of the bag `path`, to be written in this order to the new bag `out`; `topic` is the topic of the clouds.

    Items may be written later, but at a None, all before it must have been written when the next is asked for. The copy is
    complete when the generator ends.
    """
    return _copy_file(path, out, topic) if path.is_file() else _copy_folder(path, out, topic)


def _copy_file(path: Path, out: Path, topic: str) -> Items:
    return {".bag": _copy_rosbag1, ".db3": _copy_database, ".mcap": _copy_mcap}[path.suffix](path, out, topic)


def _copy_folder(path: Path, out: Path, topic: str) -> Items:
    """metadata.yaml stays as it is: names, times and message counts do not depend on the clouds."""
    from ruamel.yaml import YAML

    about = YAML(typ="safe").load((path / _METADATA).read_text(encoding="utf-8"))["rosbag2_bagfile_information"]
    mode = str(about.get("compression_mode") or "").lower()
    out.mkdir()
    for name in (PurePath(name).name for name in about["relative_file_paths"]):
        if mode == "file":
            before, after = (out / f".{which}.{PurePath(name).stem}" for which in ("before", "after"))
            with zstd().open(path / name, "rb") as file, before.open("wb") as plain:
                shutil.copyfileobj(file, plain)
            yield from _copy_file(before, after, topic)
            with after.open("rb") as plain, zstd().open(out / name, "wb") as file:
                shutil.copyfileobj(plain, file)
            before.unlink()
            after.unlink()
        else:
            yield from map(_unpacked if mode == "message" else lambda item: item, _copy_file(path / name, out / name, topic))
    (out / _METADATA).write_bytes((path / _METADATA).read_bytes())


def _unpacked(item: Item | None) -> Item | None:
    """An item of a bag whose messages are compressed one by one."""
    if item is None or not item.cloud:
        return item
    return Item(inflate(item.raw, "zstd"), True, lambda raw: item.write(zstd().compress(raw)))


def _copy_rosbag1(path: Path, out: Path, topic: str) -> Items:
    from rosbags.rosbag1 import Writer
    from rosbags.rosbag1.reader import decompressors

    with closing(open_reader(path)) as reader:
        writer = Writer(out)
        chunks = list(reader.chunks.values())
        for name in ("bz2", "lz4"):
            if chunks and chunks[0].decompressor is decompressors.get(name):
                writer.set_compression(writer.CompressionFormat[name.upper()])
        if writer.compression_format == "lz4":
            writer.compressor = _compress_ros1_lz4
        with writer:
            connections = {connection.id: _added(writer, connection) for connection in reader.connections}
            for connection, time, raw in reader.messages():
                yield Item(raw, connection.topic == topic, partial(writer.write, connections[connection.id], time))
            yield None


def _compress_ros1_lz4(data: bytes) -> bytes:
    """Compress a chunk for roslz4, the decoder of ROS 1, which cannot read the frames of rosbags.

    It accepts only independent blocks with a checksum of the content and without its size: the opposite of all defaults of lz4.
    """
    import lz4.frame

    options = {"block_linked": False, "content_checksum": True, "block_checksum": False, "store_size": False}
    return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX1MB, **options))


def _added(writer: Any, connection: Any) -> Any:
    """Add a connection to the writer. A restarted recorder may list a publisher twice."""
    for known in writer.connections:
        if (known.topic, known.msgtype, known.ext) == (connection.topic, connection.msgtype, connection.ext):
            return known
    about = {"callerid": connection.ext.callerid, "latching": connection.ext.latching}
    return writer.add_connection(
        connection.topic, connection.msgtype, msgdef=connection.msgdef.data, md5sum=connection.digest, **about
    )


def _copy_database(path: Path, out: Path, topic: str) -> Items:
    with path.open("rb") as file, out.open("xb") as copied:
        shutil.copyfileobj(file, copied)
    # Immutable, as rosbags opens it: no files are written next to the bag, not even a lock.
    with (
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as before,
        closing(sqlite3.connect(out, isolation_level=None)) as after,
    ):
        if before.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchone():
            raise ValueError("the database has triggers, which bags do not have")
        after.execute("PRAGMA journal_mode = OFF")  # an unfinished copy is of no use
        after.execute("BEGIN")
        clouds = "SELECT rowid, data FROM messages WHERE topic_id IN (SELECT id FROM topics WHERE name = ?) ORDER BY rowid"
        for row, raw in before.execute(clouds, (topic,)):
            yield Item(raw, True, partial(_update, after, row))
        yield None
        with _on_disk():
            after.execute("COMMIT")


def _update(database: sqlite3.Connection, row: int, raw: bytes) -> None:
    with _on_disk():
        database.execute("UPDATE messages SET data = ? WHERE rowid = ?", (raw, row))


@contextmanager
def _on_disk() -> Iterator[None]:
    """Report a full disk as OSError, like the other writers."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
            raise OSError(errno.ENOSPC, str(error)) from None
        raise


def _copy_mcap(path: Path, out: Path, topic: str) -> Items:
    try:
        from mcap.records import Attachment, Channel, Chunk, Header, Message, Metadata, Schema
        from mcap.writer import CompressionType, Writer
    except ImportError:
        raise MissingExtra("writing mcap files", "ros") from None

    schemas, channels = {0: 0}, dict[int, int]()  # new ids by old ones

    def put(record: Any, raw: bytes) -> None:
        if isinstance(record, Message):
            writer.add_message(channels[record.channel_id], record.log_time, raw, record.publish_time, record.sequence)
        elif isinstance(record, Schema) and record.id not in schemas:  # each chunk may repeat them
            schemas[record.id] = writer.register_schema(record.name, record.encoding, record.data)
        elif isinstance(record, Channel) and record.id not in channels:
            about = (record.topic, record.message_encoding, schemas[record.schema_id], record.metadata)
            channels[record.id] = writer.register_channel(*about)
        elif isinstance(record, Attachment):
            writer.add_attachment(record.create_time, record.log_time, record.name, record.media_type, record.data)
        elif isinstance(record, Metadata):
            writer.add_metadata(record.name, record.metadata)

    first = next((record for record in _mcap_records(path, inside=False) if isinstance(record, Chunk | Message)), None)
    compression = CompressionType[(first.compression if isinstance(first, Chunk) else "").upper() or "NONE"]
    clouds = set[int]()  # channels
    with out.open("xb") as file:
        writer = Writer(file, compression=compression, use_chunking=isinstance(first, Chunk))
        for record in _mcap_records(path):
            if isinstance(record, Header):
                writer.start(record.profile, record.library)
            elif isinstance(record, Message):
                yield Item(record.data, record.channel_id in clouds, partial(put, record))
            else:
                if isinstance(record, Channel) and record.topic == topic:
                    clouds.add(record.id)
                yield Item(b"", False, partial(put, record))
        yield None
        writer.finish()


def _mcap_records(path: Path, inside: bool = True) -> Iterator[Any]:
    """Yield the records of an mcap file up to its summary; if `inside`, those in chunks instead of the chunks."""
    from mcap.records import Chunk, DataEnd
    from mcap.stream_reader import StreamReader, breakup_chunk

    with path.open("rb") as file:
        for record in StreamReader(file, emit_chunks=True).records:
            if isinstance(record, DataEnd):
                return
            if not (inside and isinstance(record, Chunk)):
                yield record
                continue
            data = inflate(record.data, record.compression) if record.compression else record.data
            if len(data) != record.uncompressed_size:
                raise ValueError(f"a chunk of {record.uncompressed_size} bytes does not have this size")
            yield from breakup_chunk(replace(record, compression="", data=data), validate_crc=True)
