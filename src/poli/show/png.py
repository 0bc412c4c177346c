"""PNG files from arrays, by the standard library alone."""

import os
import struct
import zlib

import numpy as np

from poli.errors import InputError
from poli.files.atomic import atomic_path


def write_png(path: str | os.PathLike[str], image: np.ndarray) -> None:  # (H, W, 3) uint8
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise InputError(f"image has shape {image.shape} and type {image.dtype}; expected (H, W, 3) of uint8")
    height, width = image.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with its filter, 0: none
    rows[:, 1:] = image.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with atomic_path(path) as temporary:
        temporary.write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + chunk(b"IEND", b"")
        )
