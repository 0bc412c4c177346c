"""PCD and PLY files in the encodings that poli reads but does not write."""

from itertools import groupby
from pathlib import Path

import numpy as np

import poli
from poli.io.formats.numpy_files import records_from_scan

PCD = ("ascii", "binary", "binary_compressed")
PLY = ("ascii", "binary_little_endian", "binary_big_endian")


def write_encoded(path: Path, scan: poli.Scan, encoding: str) -> None:
    """Write a scan in this encoding, by changing the file that poli writes."""
    poli.write(scan, path)
    usual, end = (b"binary", b"DATA binary\n") if path.suffix == ".pcd" else (b"binary_little_endian", b"end_header\n")
    if encoding.encode() == usual:
        return
    records = records_from_scan(scan, flat=path.suffix == ".ply")
    head, end, _ = path.read_bytes().partition(end)
    if encoding == "ascii":
        data = "".join(" ".join(map(repr, row)) + "\n" for row in records.tolist()).encode()
    elif encoding == "binary_big_endian":
        data = records.astype(records.dtype.newbyteorder(">")).tobytes()
    else:
        raw = b"".join(np.ascontiguousarray(records[name]).tobytes() for name in records.dtype.names)
        packed = lzf(raw)
        data = np.array([len(packed), len(raw)], "<u4").tobytes() + packed
    path.write_bytes((head + end).replace(usual, encoding.encode()) + data)


def lzf(raw: bytes) -> bytes:
    """Compress by LZF: each run of equal bytes is a literal, and copies of up to 264 bytes of it."""
    out = bytearray()
    for value, run in groupby(raw):
        left = len(list(run))
        while left:
            out += bytes([0, value])
            length = min(left - 1, 264)
            left -= 1
            if length > 2:
                coded = length - 2
                out += bytes([coded << 5, 0]) if coded < 7 else bytes([7 << 5, coded - 7, 0])
                left -= length
    return bytes(out)
