"""Copy an mcap file: the same records in the same chunks, byte for byte except for the clouds.

Publish times, sequence numbers, attachments, metadata and unknown records are preserved. Indexes, statistics and checksums are
recomputed.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from zlib import crc32

from poli.io.datasets.bag_codecs import compress
from poli.io.datasets.bag_copiers import Item
from poli.io.datasets.mcap_records import MAGIC, MESSAGE_HEAD, Chunk, Op, Record, data_records, packed, read_string, string


@dataclass
class _Times:
    """First and last log time of messages."""

    first: int = 2**64 - 1
    last: int = 0

    def add(self, time: int) -> None:
        self.first, self.last = min(self.first, time), max(self.last, time)

    def packed(self) -> bytes:
        return struct.pack("<QQ", self.first if self.first <= self.last else 0, self.last)


@dataclass
class _OpenChunk:
    compression: str
    data: BytesIO = field(default_factory=BytesIO)
    times: _Times = field(default_factory=_Times)
    index: defaultdict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))  # by channel: time, offset


@dataclass
class _Summary:
    """Contents of the summary section."""

    schemas: dict[int, bytes] = field(default_factory=dict)
    channels: dict[int, bytes] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    attachments: list[bytes] = field(default_factory=list)
    metadata: list[bytes] = field(default_factory=list)
    counts: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))  # of messages, by channel
    times: _Times = field(default_factory=_Times)

    def statistics(self) -> bytes:
        sizes = (len(part) for part in (self.schemas, self.channels, self.attachments, self.metadata, self.chunks))
        counts = b"".join(struct.pack("<HQ", channel, count) for channel, count in sorted(self.counts.items()))
        return struct.pack("<QHIIII", sum(self.counts.values()), *sizes) + self.times.packed() + string(counts)

    def packed(self, begin: int) -> bytes:
        """Serialize the summary and the footer, to be written at offset `begin` of the file."""
        groups = {
            Op.SCHEMA: [*self.schemas.values()],
            Op.CHANNEL: [*self.channels.values()],
            Op.STATISTICS: [self.statistics()],
            Op.CHUNK_INDEX: self.chunks,
            Op.ATTACHMENT_INDEX: self.attachments,
            Op.METADATA_INDEX: self.metadata,
        }
        written, offsets = b"", b""
        for op, contents in groups.items():
            group = b"".join(packed(op, content) for content in contents)
            if group:
                offsets += packed(Op.SUMMARY_OFFSET, struct.pack("<BQQ", op, begin + len(written), len(group)))
            written += group
        footer = packed(Op.FOOTER, struct.pack("<QQI", begin, begin + len(written), 0))
        checked = written + offsets + footer[:-4]
        return checked + struct.pack("<I", crc32(checked))


class McapCopy:
    def __init__(self, path: Path, out: Path, topic: str) -> None:
        self._in, self._topic = path.open("rb"), topic.encode()
        self._out = out.open("xb")
        self._topics: dict[int, bytes] = {}  # by channel
        self._chunk: _OpenChunk | None = None
        self._summary = _Summary()

    def close(self) -> None:
        self._in.close()
        self._out.close()

    def items(self) -> Iterator[Item]:
        self._out.write(MAGIC)
        for record in data_records(self._in):
            if record.op == Op.CHUNK:
                chunk = Chunk.of(record.content)
                yield Item(b"", False, partial(self._open_chunk, chunk.compression))
                yield from map(self._item, chunk.records())
                yield Item(b"", False, self._close_chunk)
            elif record.op != Op.MESSAGE_INDEX:
                yield self._item(record)
        yield Item(b"", False, self._finish)

    def _item(self, record: Record) -> Item:
        op, content = record
        if op == Op.CHANNEL:
            self._topics[_number(content)] = read_string(content, 4)[0]
        if op != Op.MESSAGE:
            return Item(content, False, partial(self._write, op, b""))
        head, raw = content[: MESSAGE_HEAD.size], content[MESSAGE_HEAD.size :]
        return Item(raw, self._topics.get(_number(head)) == self._topic, partial(self._write, op, head))

    # --- writing

    def _write(self, op: int, head: bytes, raw: bytes) -> None:
        """Write a record with the content `head` + `raw`."""
        summary, place = self._summary, self._chunk.data if self._chunk else self._out
        offset = place.tell()
        length = place.write(packed(op, head, raw))
        if op == Op.SCHEMA:
            summary.schemas[_number(raw)] = raw
        elif op == Op.CHANNEL:
            summary.channels[_number(raw)] = raw
        elif op == Op.MESSAGE:
            channel, _, time, _ = MESSAGE_HEAD.unpack(head)
            summary.counts[channel] += 1
            summary.times.add(time)
            if self._chunk:
                self._chunk.times.add(time)
                self._chunk.index[channel].append((time, offset))
        elif op == Op.ATTACHMENT:
            summary.attachments.append(struct.pack("<QQ", offset, length) + _attachment(raw))
        elif op == Op.METADATA:
            summary.metadata.append(struct.pack("<QQ", offset, length) + string(read_string(raw, 0)[0]))

    def _open_chunk(self, compression: str, _: bytes) -> None:
        self._chunk = _OpenChunk(compression)

    def _close_chunk(self, _: bytes) -> None:
        chunk, self._chunk = self._chunk, None
        assert chunk is not None
        inside = chunk.data.getvalue()
        stored, name = compress(inside, chunk.compression), string(chunk.compression.encode())
        begin, span = self._out.tell(), chunk.times.packed()
        head = span + struct.pack("<QI", len(inside), crc32(inside)) + name + struct.pack("<Q", len(stored))
        length = self._out.write(packed(Op.CHUNK, head, stored))
        places = b""
        for channel, entries in chunk.index.items():
            places += struct.pack("<HQ", channel, self._out.tell())
            index = b"".join(struct.pack("<QQ", *entry) for entry in entries)
            self._out.write(packed(Op.MESSAGE_INDEX, struct.pack("<H", channel), string(index)))
        indexed = self._out.tell() - begin - length
        self._summary.chunks.append(
            span + struct.pack("<QQ", begin, length) + string(places) + struct.pack("<Q", indexed) + name
            + struct.pack("<QQ", len(stored), len(inside))
        )  # fmt: skip

    def _finish(self, _: bytes) -> None:
        self._out.write(packed(Op.DATA_END, bytes(4)))  # no checksum of the data section
        self._out.write(self._summary.packed(self._out.tell()) + MAGIC)
        self.close()


def _number(content: bytes) -> int:
    """Return the id at the start of a schema, a channel, or a message (that of its channel)."""
    return struct.unpack_from("<H", content)[0]


def _attachment(content: bytes) -> bytes:
    """Return the index entry of an attachment without its offset and length: times, size, name and media type."""
    name, at = read_string(content, 16)
    media, at = read_string(content, at)
    return content[:16] + content[at : at + 8] + string(name) + string(media)
