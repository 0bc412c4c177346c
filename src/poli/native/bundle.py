"""A file of compiled overloads: a JSON header, then bytes.

The package has one file of many overloads per CPU level, the user's cache one file per overload. The header names the target
(Python, numba, CPU) and the sources of the code; every piece has a digest, because LLVM does not check its input."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from struct import Struct
from typing import Any, BinaryIO

from poli.native.numba_private import Parts

_MAGIC = b"POLI native 1\n"
_LENGTH = Struct("<Q")
_LONGEST_HEADER = 1 << 26


@dataclass(frozen=True)
class Overload:
    """A kernel, compiled for one set of types."""

    kernel: str  # "poli.voxels._means"
    types: str  # of its arguments
    sources: dict[str, str]  # the files that its code depends on, and their digests
    parts: Parts


class Bundle:
    """A file of compiled overloads: `Bundle(lambda: open(...))`. The file does not stay open; pieces are read on demand."""

    def __init__(self, open_file: Callable[[], Any]) -> None:
        self._open = open_file
        with open_file() as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ValueError("not a file of compiled kernels")
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            if length > _LONGEST_HEADER:
                raise ValueError("not a file of compiled kernels: the header is too long")
            header = json.loads(file.read(length))
        self._start = len(_MAGIC) + _LENGTH.size + length
        self.made_for: dict[str, str] = header["made_for"]
        self._files: list[list[str]] = header["files"]
        self._overloads: dict[str, dict[str, Any]] = header["overloads"]

    def __len__(self) -> int:
        return sum(len(found) for found in self._overloads.values())

    def overloads(self) -> list[tuple[str, str]]:
        """Return all pairs of a kernel and the types that it was compiled for."""
        return [(kernel, types) for kernel, found in self._overloads.items() for types in found]

    def holds(self, kernel: str, types: str) -> bool:
        return types in self._overloads.get(kernel, {})

    def sources(self, kernel: str, types: str) -> dict[str, str]:
        return dict(self._files[number] for number in self._overloads[kernel][types]["sources"])

    def read(self, kernel: str, types: str) -> tuple[bytes, bytes, Callable[[], bytes]]:
        """Return state, code, and a function that reads the bitcode."""
        found = self._overloads[kernel][types]
        with self._open() as file:
            state, code = self._piece(file, found["state"]), self._piece(file, found["code"])
        return state, code, lambda: self._bitcode(found["bitcode"])

    def overload(self, kernel: str, types: str) -> Overload:
        state, code, bitcode = self.read(kernel, types)
        return Overload(kernel, types, self.sources(kernel, types), Parts(state, code, bitcode()))

    def _bitcode(self, place: list) -> bytes:
        with self._open() as file:
            return zlib.decompress(self._piece(file, place))

    def _piece(self, file: BinaryIO, place: list) -> bytes:
        begin, length, digest = place
        file.seek(self._start + begin)
        content = file.read(length)
        if sha256(content).hexdigest() != digest:
            raise ValueError("the file of compiled kernels is damaged")
        return content


def bundled(made_for: dict[str, str], overloads: Iterable[Overload]) -> bytes:
    """Return the content of a file of these overloads."""
    overloads = sorted(overloads, key=lambda overload: (overload.kernel, overload.types))
    numbers: dict[tuple[str, str], int] = {}
    table: dict[str, dict[str, Any]] = {}
    body, length = BytesIO(), 0

    def put(content: bytes) -> list:
        nonlocal length
        begin, length = length, length + len(content)
        body.write(content)
        return [begin, len(content), sha256(content).hexdigest()]

    for overload in overloads:
        table.setdefault(overload.kernel, {})[overload.types] = {
            "sources": [numbers.setdefault(source, len(numbers)) for source in sorted(overload.sources.items())],
            "state": put(overload.parts.state),
            "code": put(overload.parts.code),
        }
    for overload in overloads:  # at the end: rarely read
        table[overload.kernel][overload.types]["bitcode"] = put(zlib.compress(overload.parts.bitcode, 9))
    header = json.dumps({"made_for": made_for, "files": [list(source) for source in numbers], "overloads": table}).encode()
    return _MAGIC + _LENGTH.pack(len(header)) + header + body.getvalue()
