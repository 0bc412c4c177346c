"""Decompression of bags with bounded memory.

rosbags decompresses without limits: a chunk of a few kilobytes can become gigabytes. `guard_rosbags` replaces the functions that
rosbags calls by those of this module. The patched names are those of rosbags 0.11; a test checks them in the installed version.
"""

from __future__ import annotations

import bz2
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from poli.io.limits import Budget

_LEAST_STEP, _LARGEST_STEP = 1 << 20, 1 << 26  # bytes decompressed per step
_FRAMES = ("bz2", "zstd")  # may consist of several concatenated frames

_ODD_SIZE, _ODD_RATIO, _MOST_RECORDS = 1 << 24, 100, 100_000  # chunks beyond both bounds are suspicious: count their records
_RECORD = struct.Struct("<BQ")

_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def inflating(budget: Budget) -> Iterator[None]:
    """Charge all decompression inside the `with` block to the budget of one bag."""
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


def inflate(data: bytes, name: str, promised: int | None = None) -> bytes:
    """Decompress a block. Output stops one byte after the `promised` size, so the caller can detect the mismatch."""
    budget = _budget.get() or Budget("a bag")
    if promised is not None:
        budget.check(len(data), promised)
    most = budget.room(len(data)) if promised is None else promised
    pieces, inflated = [], 0
    for piece in _pieces(data, name, most + 1):
        pieces.append(piece)
        inflated += len(piece)
        if inflated > most:
            break
    budget.spend(len(data), inflated if promised is None else min(inflated, promised))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def inflate_file(source: Path, out: Path) -> None:
    """Decompress a file that is compressed as a whole."""
    with source.open("rb") as packed, opened(packed) as reading, out.open("wb") as writing:
        while piece := reading.read(_LEAST_STEP):
            writing.write(piece)


class _CountedFile:
    """A zstd file whose decompression raises once it exceeds the budget."""

    def __init__(self, packed: BinaryIO, budget: Budget) -> None:
        self._file, self._budget = zstd().open(packed, "rb"), budget
        self._packed, self._inflated = os.fstat(packed.fileno()).st_size, 0

    def __enter__(self) -> _CountedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        piece = self._file.read(size)
        self._inflated += len(piece)
        if self._inflated > self._budget.room(self._packed):
            self._budget.spend(self._packed, self._inflated)  # raises
        return piece


def opened(packed: BinaryIO, _mode: str = "rb") -> _CountedFile:
    return _CountedFile(packed, _budget.get() or Budget("a bag"))


@cache
def guard_rosbags() -> None:
    """Bound the decompression of rosbags, for the lifetime of this process."""
    from rosbags.rosbag1 import reader as rosbag1
    from rosbags.rosbag2 import reader as rosbag2
    from rosbags.rosbag2 import storage_mcap as mcap

    for name in ("bz2", "lz4"):
        rosbag1.decompressors[name] = partial(inflate, name=name)
    for name in ("lz4", "zstd"):
        mcap.DECOMPRESSORS[name] = partial(_inflate_chunk, name)
    rosbag2.zstd = _Zstd()  # type: ignore[assignment]


class _Zstd:
    """The part of the zstd module that the rosbag2 reader uses."""

    decompress = staticmethod(partial(inflate, name="zstd"))
    open = staticmethod(opened)


def _inflate_chunk(name: str, data: bytes, size: int) -> bytes:
    """Decompress an mcap chunk. The number of records is limited: iterating over 100 MB of empty records takes a minute."""
    inside = inflate(data, name, size)
    if len(inside) > max(_ODD_SIZE, _ODD_RATIO * len(data)):
        at = 0
        for _ in range(_MOST_RECORDS):
            if at + _RECORD.size > len(inside):
                return inside
            at += _RECORD.size + _RECORD.unpack_from(inside, at)[1]
        raise ValueError(f"a chunk of {len(data)} bytes has more than {_MOST_RECORDS} records")
    return inside


def zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _pieces(data: bytes, name: str, most: int) -> Iterator[bytes]:
    """Yield at most `most` decompressed bytes, in steps proportional to the input: no large buffer is allocated in advance."""
    step = min(max(_LEAST_STEP, 8 * len(data)), _LARGEST_STEP)
    while data:
        decompressor = _decompressor(name)
        rest = data
        while not decompressor.eof:
            piece = decompressor.decompress(rest, max_length=min(step, most))
            rest = b""
            most -= len(piece)
            if piece:
                yield piece
            if most <= 0:
                return
            if not piece and decompressor.needs_input:
                raise EOFError("a compressed block is truncated")
        data = (decompressor.unused_data or b"") if name in _FRAMES else b""


def _decompressor(name: str) -> Any:
    if name == "bz2":
        return bz2.BZ2Decompressor()
    if name == "lz4":
        import lz4.frame

        return lz4.frame.LZ4FrameDecompressor()
    if name != "zstd":
        raise ValueError(f"unknown compression {name!r}; expected bz2, lz4 or zstd")
    return zstd().ZstdDecompressor()


# --- compression of bags that are written


def compress_ros1_lz4(data: bytes) -> bytes:
    """Compress a chunk of a ROS 1 bag.

    ROS 1 has its own LZ4 decoder (roslz4), which accepts only frames of independent blocks with a checksum of the content and
    without its size: the opposite of every default of the lz4 package. `rosbag` writes blocks of 1 MB, and so does this.
    """
    import lz4.frame

    frame = lz4.frame.compress(
        data,
        block_size=lz4.frame.BLOCKSIZE_MAX1MB,
        block_linked=False,
        content_checksum=True,
        block_checksum=False,
        store_size=False,
    )
    return bytes(frame)


def compress(data: bytes, name: str) -> bytes:
    if not name:
        return data
    if name == "lz4":
        import lz4.frame

        return bytes(lz4.frame.compress(data))
    if name != "zstd":
        raise ValueError(f"unknown compression {name!r}; expected lz4 or zstd")
    return bytes(zstd().compress(data))


def decompress(data: bytes, name: str, promised: int | None = None) -> bytes:
    if name not in ("", "lz4", "zstd"):
        raise ValueError(f"unknown compression {name!r}; expected lz4 or zstd")
    return inflate(data, name, promised) if name else data


def compress_file(source: Path, out: Path) -> None:
    with source.open("rb") as reading, zstd().open(out, "wb") as writing:
        shutil.copyfileobj(reading, writing)
