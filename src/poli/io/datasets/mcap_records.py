"""Records of mcap files (mcap.dev/spec): opcode, length and content.

Invalid records raise ValueError; `bags.damage` adds the name of the bag.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import BinaryIO, NamedTuple
from zlib import crc32

from poli.io.datasets.bag_codecs import decompress

MAGIC = b"\x89MCAP0\r\n"
MESSAGE_HEAD = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time
_HEAD = struct.Struct("<BQ")
_CHUNK_HEAD = struct.Struct("<QQQI")  # first and last time, uncompressed size and checksum


class Op(IntEnum):
    HEADER = 0x01
    FOOTER = 0x02
    SCHEMA = 0x03
    CHANNEL = 0x04
    MESSAGE = 0x05
    CHUNK = 0x06
    MESSAGE_INDEX = 0x07
    CHUNK_INDEX = 0x08
    ATTACHMENT = 0x09
    ATTACHMENT_INDEX = 0x0A
    STATISTICS = 0x0B
    METADATA = 0x0C
    METADATA_INDEX = 0x0D
    SUMMARY_OFFSET = 0x0E
    DATA_END = 0x0F


class Record(NamedTuple):
    op: int  # an `Op`, or an unknown or private opcode
    content: bytes


def packed(op: int, *contents: bytes) -> bytes:
    return b"".join([_HEAD.pack(op, sum(map(len, contents))), *contents])


def string(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text


def read_string(content: bytes, at: int) -> tuple[bytes, int]:
    """Return the string at offset `at` and the offset of its end."""
    (size,) = struct.unpack_from("<I", content, at)
    end = at + 4 + size
    if end > len(content):
        raise ValueError(f"a string of {size} bytes in a record of {len(content)}")
    return content[at + 4 : end], end


def data_records(file: BinaryIO) -> Iterator[Record]:
    """Yield the records of the data section."""
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("not an mcap file: wrong first bytes")
    end = file.seek(0, 2)
    file.seek(len(MAGIC))
    while True:
        head = file.read(_HEAD.size)
        op, size = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, end)
        if file.tell() + size > end:
            raise ValueError(f"a record of {size} bytes begins {len(head)} bytes before byte {file.tell()} of {end}")
        if op in (Op.DATA_END, Op.FOOTER):
            return
        yield Record(op, file.read(size))


class Chunk(NamedTuple):
    compression: str
    inside: bytes

    @staticmethod
    def of(content: bytes) -> Chunk:
        _, _, size, check = _CHUNK_HEAD.unpack_from(content)
        name, at = read_string(content, _CHUNK_HEAD.size)
        (stored,) = struct.unpack_from("<Q", content, at)
        inside = decompress(content[at + 8 : at + 8 + stored], name.decode(), size)
        if len(inside) != size or (check and crc32(inside) != check):
            raise ValueError(f"a chunk of {size} bytes does not match its size or checksum")
        return Chunk(name.decode(), inside)

    def records(self) -> Iterator[Record]:
        at = 0
        while at < len(self.inside):
            op, size = _HEAD.unpack_from(self.inside, at)
            at += _HEAD.size + size
            if at > len(self.inside):
                raise ValueError(f"a record of {size} bytes does not fit into its chunk of {len(self.inside)}")
            yield Record(op, self.inside[at - size : at])
