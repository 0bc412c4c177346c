"""Compression of bags that are written."""

from __future__ import annotations

import shutil
from pathlib import Path

from poli.io.limits import inflate, zstd


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
    """Compress a chunk or a message. Without a name, return it unchanged."""
    if not name:
        return data
    if name == "lz4":
        import lz4.frame

        return bytes(lz4.frame.compress(data))
    if name != "zstd":
        raise ValueError(f"unknown compression {name!r}; expected lz4 or zstd")
    return bytes(zstd().compress(data))


def decompress(data: bytes, name: str, promised: int | None = None) -> bytes:
    """Undo `compress`."""
    if name not in ("", "lz4", "zstd"):
        raise ValueError(f"unknown compression {name!r}; expected lz4 or zstd")
    return inflate(data, name) if name else data


def compress_file(source: Path, out: Path) -> None:
    """Compress a whole file."""
    with source.open("rb") as reading, zstd().open(out, "wb") as writing:
        shutil.copyfileobj(reading, writing)


def inflate_file(source: Path, out: Path) -> None:
    """Decompress a whole file."""
    with zstd().open(source, "rb") as reading, out.open("wb") as writing:
        shutil.copyfileobj(reading, writing)
