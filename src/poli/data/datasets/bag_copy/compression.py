"""The two compressions of ROS 2 bags, both ways. Both come with rosbags."""

from __future__ import annotations

import shutil
from pathlib import Path

from poli.data.datasets.bag_codecs import inflate, inflate_file, zstd

__all__ = ["compress", "compress_file", "decompress", "decompress_file"]

decompress_file = inflate_file


def compress(data: bytes, name: str) -> bytes:
    if not name:
        return data
    if name == "lz4":
        import lz4.frame

        return bytes(lz4.frame.compress(data))
    if name != "zstd":
        raise ValueError(f"compression {name!r} is unknown; known are lz4 and zstd")
    return bytes(zstd().compress(data))


def decompress(data: bytes, name: str, promised: int | None = None) -> bytes:
    if name not in ("", "lz4", "zstd"):
        raise ValueError(f"compression {name!r} is unknown; known are lz4 and zstd")
    return inflate(data, name, promised) if name else data


def compress_file(source: Path, out: Path) -> None:
    with source.open("rb") as reading, zstd().open(out, "wb") as writing:
        shutil.copyfileobj(reading, writing)
