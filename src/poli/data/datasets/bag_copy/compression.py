"""The two compressions of bags. Both come with rosbags."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any


def compress(data: bytes, name: str) -> bytes:
    return data if not name else bytes(_codec(name).compress(data))


def decompress(data: bytes, name: str) -> bytes:
    return data if not name else bytes(_codec(name).decompress(data))


def compress_file(source: Path, out: Path) -> None:
    with source.open("rb") as reading, _codec("zstd").open(out, "wb") as writing:
        shutil.copyfileobj(reading, writing)


def decompress_file(source: Path, out: Path) -> None:
    with _codec("zstd").open(source, "rb") as reading, out.open("wb") as writing:
        shutil.copyfileobj(reading, writing)


def _codec(name: str) -> Any:
    if name == "lz4":
        import lz4.frame

        return lz4.frame
    if name != "zstd":
        raise ValueError(f"compression {name!r} is unknown; known are lz4 and zstd")
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
