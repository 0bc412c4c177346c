"""Limit the memory that an unchecked file can claim.

A header of a few bytes can declare any number of points, and a compressed block can inflate to a thousand times its size. Readers
therefore compare counts with the bytes present, and inflated sizes with packed sizes. A file, or one block of a bag, may inflate to

    256 MiB in any case, otherwise 100 times its size, and never more than 16 GiB.

Sensor data compress to a half or a tenth, rarely to less. To read a valid file that is larger, set `POLI_MAX_INFLATED` to the
allowed size in bytes, or as `64G`; worker processes inherit it.
"""

from __future__ import annotations

import bz2
import os
import re
import sys
import zipfile
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from poli.errors import FormatError, InputError, PoliError

VARIABLE = "POLI_MAX_INFLATED"
_ALWAYS = 256 << 20
_RATIO = 100
_MOST = 16 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_STEP = 1 << 24  # bytes inflated at a time
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that numpy writes; zipfile inflates others without a limit


def largest_inflated(packed: int) -> int:
    """Return the number of bytes that `packed` bytes may inflate to."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return min(max(_ALWAYS, _RATIO * packed), _MOST)
    found = re.fullmatch(r"([0-9]{1,18})\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise InputError(f"{VARIABLE} is {text[:40]!r}; expected a number of bytes, such as 4000000000 or 4G")
    return int(found[1]) * _UNITS[found[2].upper()]


def check_inflated(where: object, packed: int, inflated: int) -> None:
    """Raise if the inflated size exceeds the limit; `where` names the file. Call it before allocating."""
    most = largest_inflated(packed)
    if inflated > most:
        unit = "G" if inflated >= _UNITS["G"] else "M"
        raise FormatError(
            f"{where}: {packed} bytes would inflate to {inflated} or more, but {most} are allowed; if you trust the file, set the "
            f"environment variable {VARIABLE} to {-(-inflated // _UNITS[unit])}{unit} or more"
        )


def check_room(where: object, what: str, count: int, width: int, left: int) -> None:
    """Raise if a header declares more than the `left` bytes of the file can hold: `count` of these with at least `width` bytes."""
    if count * width > left:
        raise FormatError(f"{where}: {count} {what} need {count * width} bytes, but {left} are left; it is truncated or damaged")


# --- Decompress the blocks of bags. rosbags does so without limits.


def inflate(data: bytes, name: str) -> bytes:
    """Decompress a block (bz2, lz4 or zstd) step by step, and raise once it exceeds the limit."""
    packed, inflated, pieces = len(data), 0, []
    while data:
        decompressor = _decompressor(name)
        while not decompressor.eof:
            piece = decompressor.decompress(data, max_length=_STEP)
            data = b""
            if not piece and decompressor.needs_input:
                raise EOFError("a compressed block is truncated")
            pieces.append(piece)
            inflated += len(piece)
            check_inflated("a compressed block", packed, inflated)
        data = b"" if name == "lz4" else decompressor.unused_data or b""  # the others may consist of several frames
    return b"".join(pieces)


def _decompressor(name: str) -> Any:
    if name == "bz2":
        return bz2.BZ2Decompressor()
    if name == "zstd":
        return zstd().ZstdDecompressor()
    if name != "lz4":
        raise ValueError(f"unknown compression {name[:40]!r}; expected bz2, lz4 or zstd")
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor()


def zstd() -> Any:
    """Return the module for zstd, which is part of Python since 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


@cache
def guard_rosbags() -> None:
    """Make rosbags decompress with `inflate`, for the lifetime of this process. A test checks that its names exist."""
    from rosbags.rosbag1 import reader as rosbag1
    from rosbags.rosbag2 import reader as rosbag2
    from rosbags.rosbag2 import storage_mcap as mcap

    for name in ("bz2", "lz4"):
        rosbag1.decompressors[name] = partial(inflate, name=name)
    for name in ("lz4", "zstd"):
        mcap.DECOMPRESSORS[name] = lambda data, _size, name=name: inflate(data, name)  # type: ignore[misc]
    rosbag2.zstd = SimpleNamespace(decompress=partial(inflate, name="zstd"), open=zstd().open)  # type: ignore[assignment]


def read_npz_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return all arrays of a numpy archive by name. Nothing is unpickled, and sizes are checked before anything is inflated."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        # The sum, compared with the size of the file: members may overlap.
        check_inflated(path, path.stat().st_size, sum(member.file_size for member in members))
        if any(member.compress_type not in _METHODS for member in members):
            raise FormatError(f"{path}: has a compression that numpy does not use; write it with numpy.savez")
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
        if any(not isinstance(array, np.ndarray) or (array.size and not array.nbytes) for array in arrays.values()):
            raise ValueError("a member is not an array, or its entries have no bytes")
        return arrays
    except PoliError:
        raise
    except Exception as error:  # zipfile, zlib, tokenize and numpy raise a dozen kinds on damaged archives
        raise FormatError(f"{path}: not a readable numpy archive, or truncated ({str(error)[:200]})") from None
