"""Hostile files: small files that promise, inflate to or request gigabytes, or would take forever. Here: points and meshes."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import poli
from poli.worlds.shapes import read_mesh

Bomb = tuple[Callable[[], bytes], Callable[[Path], object]]  # how the file is made, and the function that reads it

MANY, MOST = 4_294_967_295, 2**62
LARGE = int(os.environ.get("BOMB_BYTES", "400000000"))  # bytes that bombs inflate to: more than allowed, and quick to make
_PCD = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH {n}\nHEIGHT 1\nPOINTS {n}\nDATA {data}\n"
_PLY = "ply\nformat {data} 1.0\nelement vertex {n}\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
_MESH = "ply\nformat {data} 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face {n}\n"
_FACES = "property list {count} int vertex_indices\nend_header\n"


def _pcd(n: int, data: str, rest: bytes = b"1 2 3\n" * 10, **changes: str) -> bytes:
    text = _PCD.format(n=n, data=data)
    for old, new in changes.values():
        text = text.replace(old, new)
    return text.encode() + rest


def _npy_header(shape: tuple[int, ...], descr: object = "<f8") -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
    return out.getvalue()


def _npz(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return out.getvalue()


def zeros_npz(count: int, copies: int = 1) -> bytes:
    """Write rows of zeros without holding them in memory; `copies` members share one compressed stream."""
    head, size = _npy_header((count, 3)), count * 24
    packer, crc = zlib.compressobj(9, zlib.DEFLATED, -15), zlib.crc32(head)
    packed = bytearray(packer.compress(head))
    step = bytes(1 << 20)
    for at in range(0, size, len(step)):
        piece = step[: min(len(step), size - at)]
        packed += packer.compress(piece)
        crc = zlib.crc32(piece, crc)
    packed += packer.flush()
    return _zip_of(bytes(packed), crc, len(head) + size, [f"points{i or ''}.npy" for i in range(copies)])


def _zip_of(packed: bytes, crc: int, size: int, names: list[str]) -> bytes:
    """An archive whose members all share the same bytes."""
    limit = 0xFFFFFFFF
    extra = struct.pack("<HHQQ", 1, 16, size, len(packed)) if size >= limit else b""
    sizes = (limit, limit) if extra else (len(packed), size)
    first = names[0].encode()
    common = struct.pack("<HHHHHIII", 45, 0, 8, 0, 0x21, crc, *sizes)
    out = b"PK\3\4" + common + struct.pack("<HH", len(first), len(extra)) + first + extra + packed
    begin, central = len(out), b""
    for name in names:
        told = name.encode()
        central += b"PK\1\2" + struct.pack("<H", 45) + common
        central += struct.pack("<HHHHHII", len(told), len(extra), 0, 0, 0, 0, 0) + told + extra
    end = struct.pack("<HHHHIIH", 0, 0, len(names), len(names), len(central), begin, 0)
    return out + central + b"PK\5\6" + end


def _las(ending: str, patches: dict[int, bytes]) -> bytes:
    import laspy

    las = laspy.LasData(laspy.LasHeader(point_format=6, version="1.4"))
    las.x = las.y = las.z = np.arange(1.0, 101.0)
    out = io.BytesIO()
    las.write(out, do_compress=ending == ".laz")
    data = bytearray(out.getvalue())
    for at, piece in patches.items():
        data[at : at + len(piece)] = piece
    return bytes(data)


def _laz_inside(offset_in_record: int, piece: bytes) -> bytes:
    """Replace a part of the record that describes the compression of the points."""
    data = bytearray(_las(".laz", {}))
    at = data.index(b"laszip encoded") - 2 + 54 + offset_in_record
    data[at : at + len(piece)] = piece
    return bytes(data)


def _laz_chunks(count: int) -> bytes:
    """The chunk table, after the points, promises this many chunks."""
    data = bytearray(_las(".laz", {}))
    (points_at,) = struct.unpack_from("<I", data, 96)
    (table_at,) = struct.unpack_from("<q", data, points_at)
    struct.pack_into("<I", data, table_at + 4, count)
    return bytes(data)


def _u32(value: int) -> bytes:
    return struct.pack("<I", value)


def _u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def _lzf_zeros(points: int) -> bytes:
    """The highest ratio of LZF: copies of 264 bytes from three."""
    size = 12 * points
    copies = (size - 1) // 264
    block = b"\0\0" + b"\xe0\xff\0" * copies
    rest = size - 1 - 264 * copies
    block += b"".join(bytes([n - 1]) + bytes(n) for n in [32] * (rest // 32) + [rest % 32] * (rest % 32 > 0))
    return _pcd(points, "binary_compressed", struct.pack("<II", len(block), size) + block)


_VERTICES = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4").tobytes()
_OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"

BOMBS: dict[str, Bomb] = {
    "binary.pcd": (partial(_pcd, MANY, "binary"), poli.read),
    "packed.pcd": (partial(_pcd, 300_000_000, "binary_compressed", struct.pack("<II", 16, 3_600_000_000) + bytes(16)), poli.read),
    "no_fields.pcd": (
        partial(_pcd, MANY, "binary", a=(" x y z", ""), b=(" 4 4 4", ""), c=(" F F F", ""), d=(" 1 1 1", "")),
        poli.read,
    ),
    "lzf.pcd": (partial(_lzf_zeros, 10_000_000), poli.read),
    "binary.ply": (lambda: _PLY.format(n=MANY, data="binary_little_endian").encode() + bytes(100), poli.read),
    "nothing.ply": (
        lambda: b"ply\nformat ascii 1.0\nelement a %d\nelement vertex 0\nproperty float x\nend_header\n" % MOST,
        poli.read,
    ),
    "header.ply": (lambda: b"ply\nformat ascii 1.0\n" + b"comment x\n" * 500_000, poli.read),
    "points.las": (partial(_las, ".las", {247: _u64(MANY)}), poli.read),
    "records.las": (partial(_las, ".las", {100: _u32(MANY)}), poli.read),
    "points.laz": (partial(_las, ".laz", {247: _u64(MANY)}), poli.read),
    "chunk_size.laz": (partial(_laz_inside, 12, _u32(MANY)), poli.read),
    "items.laz": (partial(_laz_inside, 32, b"\xff\xff"), poli.read),
    "chunks.laz": (partial(_laz_chunks, MANY), poli.read),
    "promise.npy": (lambda: _npy_header((10**12, 3)) + bytes(240), poli.read),
    "empty_type.npy": (lambda: _npy_header((MOST, 3), "|S0"), poli.read),
    "brackets.npy": (lambda: b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"(" * 9000, poli.read),
    "zeros.npz": (partial(zeros_npz, LARGE // 24), poli.read),
    "overlap.npz": (partial(zeros_npz, 1_000_000, copies=500), poli.read),
    "promise.npz": (lambda: _npz({"points": _npy_header((10**12, 3)) + bytes(240)}), poli.read),
    "bzip2.npz": (lambda: _npz({"points": bytes(20_000_000)}, zipfile.ZIP_BZIP2), poli.read),
    "line.csv": (lambda: b"x,y,z\n1,2," + b"9" * 5_000_000 + b"\n", poli.read),
    "quote.csv": (lambda: b'x,y,z\n1,2,"' + b"3\n" * 1_000_000, poli.read),
    "corners.obj": (lambda: _OBJ + b"f" + b" 1 2 3" * 200_000 + b"\n", read_mesh),
    "faces.ply": (
        lambda: (_MESH.format(n=MANY, data="binary_little_endian") + _FACES.format(count="uint")).encode() + _VERTICES,
        read_mesh,
    ),
    "corners.ply": (
        lambda: (_MESH.format(n=1, data="binary_little_endian") + _FACES.format(count="uint")).encode() + _VERTICES + _u32(MANY),
        read_mesh,
    ),
}  # fmt: skip
