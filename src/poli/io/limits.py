"""Limit the memory that an unchecked file can claim.

A header of a few bytes can declare any number of points, and a compressed block can inflate to a thousand times its size. Readers
therefore compare counts with the bytes present, and inflated sizes with packed sizes. A file may inflate to

    256 MiB in any case, otherwise 100 times its size, and never more than 16 GiB.

Sensor data compress to a half or a tenth, rarely to less. To read a valid file that is larger, set `POLI_MAX_INFLATED` to the
allowed size in bytes, or as `64G`; worker processes inherit it.
"""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import numpy as np

from poli.errors import FormatError, InputError, PoliError

VARIABLE = "POLI_MAX_INFLATED"
_ALWAYS = 256 << 20
_RATIO = 100
_MOST = 16 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def largest_inflated(packed: int) -> int:
    """Return the number of bytes that `packed` bytes may inflate to."""
    text = os.environ.get(VARIABLE, "").strip()
    if text:
        return _parse(text)
    return min(max(_ALWAYS, _RATIO * packed), _MOST)


def check_inflated(where: object, packed: int, inflated: int, known: bool = True) -> None:
    """Raise if the inflated size exceeds the limit. Call it before allocating.

    `where` names the file in the error. If not `known`, `inflated` is a lower bound of the size.
    """
    most = largest_inflated(packed)
    if inflated > most:
        size, enough = (f"{inflated}, more", _rounded(inflated)) if known else ("more", f"more, such as {_rounded(4 * most)}")
        raise FormatError(
            f"{where}: {packed} bytes would inflate to {size} than the {most} allowed; "
            f"if you trust the file, set the environment variable {VARIABLE} to {enough}"
        )


class Budget:
    """The inflated size of one file, counted while it is read block by block."""

    def __init__(self, where: object) -> None:
        self.where = where
        self._packed = self._inflated = 0

    def room(self, packed: int) -> int:
        """Return the number of bytes that a block of `packed` bytes may inflate to."""
        return max(0, largest_inflated(self._packed + packed) - self._inflated)

    def check(self, packed: int, promised: int) -> None:
        """Raise if a block may not inflate to the size its header declares."""
        check_inflated(self.where, self._packed + packed, self._inflated + promised)

    def spend(self, packed: int, inflated: int) -> None:
        """Count a block, as far as it was inflated. A block that is read twice counts twice, packed and inflated."""
        check_inflated(self.where, self._packed + packed, self._inflated + inflated, known=False)
        self._packed += packed
        self._inflated += inflated


def _parse(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,18})\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise InputError(f"{VARIABLE} is {text[:40]!r}; expected a number of bytes, such as 4000000000 or 4G")
    return int(found[1]) * _UNITS[found[2].upper()]


def _rounded(inflated: int) -> str:
    """Return a sufficient limit, rounded up to whole MiB or GiB."""
    unit = max((u for u in "MG" if _UNITS[u] <= inflated), key=_UNITS.__getitem__, default="M")
    return f"{-(-inflated // _UNITS[unit])}{unit}"


# --- Read untrusted numpy archives: never unpickle, and check every header before allocating.


_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that numpy writes; zipfile inflates others without a limit
_STEP = 1 << 24  # bytes inflated at a time


def read_npz_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return all arrays of the archive by name."""
    path = Path(path)
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            # The sum, compared with the size of the file: members may overlap.
            check_inflated(path, path.stat().st_size, sum(member.file_size for member in members))
            for member in members:
                name = member.filename.removesuffix(".npy")
                if member.compress_type not in _METHODS:
                    raise FormatError(f"{path}: '{name}' has a compression that numpy does not use; write it with numpy.savez")
                with archive.open(member) as file:
                    arrays[name] = _read_array(file, member.file_size)
    except (PoliError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib, tokenize and numpy raise a dozen kinds on damaged archives
        raise FormatError(
            f"{path}: not a readable numpy archive ({str(error)[:200]}); it is truncated or has another format"
        ) from None
    return arrays


def _read_array(file, size: int) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read_header is None:
        raise ValueError(f"numpy format version {version}")
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it contains pickled objects, which poli never loads")
    count = 1
    for extent in shape:
        count *= int(extent)
    left = size - file.tell()
    if count < 0 or count * dtype.itemsize != left or (count and not dtype.itemsize):
        raise ValueError(f"the header declares {count * dtype.itemsize} bytes, but {left} follow")
    data = np.empty(left, np.uint8)
    view = memoryview(data)  # type: ignore[arg-type]
    at = 0
    while at < left:
        read = file.readinto(view[at : at + _STEP])
        if not read:
            raise EOFError("truncated")
        at += read
    file.read(1)  # reaching the end makes zipfile verify the checksum
    return np.ndarray(shape, dtype, data, order="F" if fortran else "C")
