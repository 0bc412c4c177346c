"""LZF compression, used by binary_compressed PCD files: literal runs, and copies of up to 264 bytes from the last 8 KiB."""

import numpy as np

from poli.kernel import kernel

MAX_EXPANSION = 264 / 2  # an upper bound: a copy takes at least two bytes and yields at most 264

_HASH_BITS = 14
_WINDOW = 1 << 13
_LONGEST_COPY = 264
_LONGEST_RUN = 32


@kernel
def decompress(packed: np.ndarray, size: int) -> np.ndarray:  # (M,) uint8 -> (size,) uint8, or empty if damaged
    out = np.empty(size, np.uint8)
    damaged = np.empty(0, np.uint8)
    at, end, to = 0, len(packed), 0
    while at < end:
        control = int(packed[at])
        at += 1
        if control < 32:  # a run of control + 1 literals
            run = control + 1
            if at + run > end or to + run > size:
                return damaged
            out[to : to + run] = packed[at : at + run]
            at += run
            to += run
            continue
        length = control >> 5
        if length == 7:
            if at >= end:
                return damaged
            length += int(packed[at])
            at += 1
        if at >= end:
            return damaged
        source = to - ((control & 31) << 8) - int(packed[at]) - 1
        at += 1
        length += 2
        if source < 0 or to + length > size:
            return damaged
        for _ in range(length):  # byte by byte: a copy may overlap itself
            out[to] = out[source]
            to += 1
            source += 1
    return out if to == size else damaged


@kernel
def compress(data: np.ndarray) -> np.ndarray:  # (M,) uint8 -> (P,) uint8
    size = len(data)
    out = np.empty(size + size // _LONGEST_RUN + 2, np.uint8)  # the worst case: literal runs only
    last = np.full(1 << _HASH_BITS, -1, np.int64)
    to, at, literals = 0, 0, 0  # the `literals` bytes before `at` are not written yet
    while at < size:
        length = 0
        source = -1
        if at + 2 < size:
            key = (int(data[at]) << 16 | int(data[at + 1]) << 8 | int(data[at + 2])) * 2654435761 >> 8 & (1 << _HASH_BITS) - 1
            source = last[key]
            last[key] = at
            if source >= 0 and at - source <= _WINDOW:
                limit = min(size - at, _LONGEST_COPY)
                while length < limit and data[source + length] == data[at + length]:
                    length += 1
        if length < 3:
            at += 1
            literals += 1
            if literals == _LONGEST_RUN or at == size:
                out[to] = literals - 1
                out[to + 1 : to + 1 + literals] = data[at - literals : at]
                to += 1 + literals
                literals = 0
            continue
        if literals:
            out[to] = literals - 1
            out[to + 1 : to + 1 + literals] = data[at - literals : at]
            to += 1 + literals
            literals = 0
        offset = at - source - 1
        coded = length - 2
        if coded < 7:
            out[to] = coded << 5 | offset >> 8
            to += 1
        else:
            out[to] = 7 << 5 | offset >> 8
            out[to + 1] = coded - 7
            to += 2
        out[to] = offset & 255
        to += 1
        at += length
    return out[:to].copy()
