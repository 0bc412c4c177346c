"""Targets (valid inputs and the functions that read them), and damage to bytes, text, tables and safetensors headers."""

from __future__ import annotations

import copy
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator

WHOLE = (
    0, 1, 2, 3, 127, 128, 255, 256, 32767, 65535, 65536, 10**6, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
FLOATS = (
    0.0, -0.0, 1e-320, 1e-40, 1e-9, 1.0, -1.0, 1e9, 1e19, 3.4e38, 1e39, 1e300, -1e300, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
WORDS = (
    "-1", "0", "1", "4294967295", "4294967296", "9223372036854775808", "18446744073709551616", "999999999999999999999999", "1e308",
    "1e999", "-1e999999", "nan", "inf", "-0", "0x10", "1_000", "True", "null", "", " ", "\t", ";", ",", "#", "a", "\"", "'", "é",
    "\0", "9" * 5000, "x" * 5000, "[" * 500, "{" * 500, "1e-400", "0.1", "-5", "0777", "٣", "\r", "\n\n", "NaN", "Infinity",
)  # fmt: skip
_NUMBER = re.compile(rb"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_SEARCHED = 6000  # leading bytes that are searched for numbers in text


def pick(rng: Rng, things):
    return things[int(rng.integers(len(things)))]


def place(rng: Rng, size: int) -> int:
    """A random position, most often near headers and footers."""
    where = rng.random()
    if where < 0.45:
        return int(rng.integers(min(size, 400)))
    if where < 0.6:
        return size - 1 - int(rng.integers(min(size, 200)))
    return int(rng.integers(size))


def flip_bits(data: bytes, rng: Rng, _other: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        out[place(rng, len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def set_number(data: bytes, rng: Rng, _other: bytes) -> bytes:
    """Overwrite some bytes with an extreme integer or float, in either byte order."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        order = pick(rng, "<<<>")
        if rng.random() < 0.75:
            letter = pick(rng, "BHIQ")
            packed = struct.pack(order + letter, pick(rng, WHOLE) & ((1 << (8 * struct.calcsize(letter))) - 1))
        elif rng.random() < 0.5:
            with np.errstate(over="ignore"):
                packed = np.array(pick(rng, FLOATS)).astype(f"{order}f4").tobytes()
        else:
            packed = struct.pack(order + "d", pick(rng, FLOATS))
        at = place(rng, len(out))
        out[at : at + len(packed)] = packed
    return bytes(out[: max(len(data), 1)])


def cut(data: bytes, rng: Rng, _other: bytes) -> bytes:
    return data[: int(rng.integers(len(data)))]


def cut_out(data: bytes, rng: Rng, _other: bytes) -> bytes:
    at = place(rng, len(data))
    return data[:at] + data[at + int(rng.integers(1, 64)) :]


def insert(data: bytes, rng: Rng, _other: bytes) -> bytes:
    at = place(rng, len(data))
    new = (
        rng.bytes(int(rng.integers(1, 64))) if rng.random() < 0.7 else bytes([int(rng.integers(256))]) * int(rng.integers(1, 3000))
    )
    return data[:at] + new + data[at:]


def repeat(data: bytes, rng: Rng, _other: bytes) -> bytes:
    at = place(rng, len(data))
    piece = data[at : at + int(rng.integers(1, 200))]
    return data[:at] + piece * int(rng.integers(2, 20)) + data[at:]


def splice(data: bytes, rng: Rng, other: bytes) -> bytes:
    """The start of one valid file and the end of another."""
    if not other:
        return data
    return data[: place(rng, len(data))] + other[place(rng, len(other)) :]


def set_words(data: bytes, rng: Rng, _other: bytes) -> bytes:
    """Replace numbers in text by other words."""
    found = list(_NUMBER.finditer(data, 0, _SEARCHED))
    if not found:
        return set_number(data, rng, b"")
    out, shift = data, 0
    count = int(rng.integers(1, 4))
    for number in sorted(rng.choice(len(found), min(count, len(found)), replace=False).tolist()):
        begin, end = found[number].span()
        word = pick(rng, WORDS).encode()
        out = out[: begin + shift] + word + out[end + shift :]
        shift += len(word) - (end - begin)
    return out


def change_lines(data: bytes, rng: Rng, other: bytes) -> bytes:
    """Remove, duplicate, reorder or replace lines, also by lines of another file."""
    lines = data.split(b"\n")
    at = int(rng.integers(min(len(lines), 60)))
    kind = int(rng.integers(4))
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at:at] = [lines[at]] * int(rng.integers(1, 50))
    elif kind == 2:
        to = int(rng.integers(min(len(lines), 60)))
        lines[at], lines[to] = lines[to], lines[at]
    else:
        lines.insert(at, pick(rng, other.split(b"\n")) if other else b"\xff\xfe")
    return b"\n".join(lines)


Mutation = Callable[[bytes, Rng, bytes], bytes]
BINARY: tuple[Mutation, ...] = (
    flip_bits, flip_bits, set_number, set_number, set_number, cut, cut_out, insert, repeat, splice,
)  # fmt: skip
TEXT: tuple[Mutation, ...] = (
    flip_bits, set_words, set_words, set_words, change_lines, change_lines, cut, cut_out, insert, splice,
)  # fmt: skip


def damaged(data: bytes, rng: Rng, other: bytes, mutations: tuple[Mutation, ...]) -> bytes:
    """Apply one mutation, or several in a row."""
    for _ in range(1 if rng.random() < 0.6 else int(rng.integers(2, 5))):
        data = (pick(rng, mutations)(data, rng, other)) if data else rng.bytes(8)
    return data


# --- targets


Tree = dict[str, bytes]  # files by their names in a folder
Damage = Callable[[Tree, Rng, list[Tree]], Tree]

TEXT_ENDINGS = (".txt", ".csv", ".xyz", ".obj", ".json", ".toml", ".yaml")


class NotFinite(Exception):
    """An answer contains numbers that are not finite."""


@dataclass(frozen=True)
class Target:
    name: str
    seeds: Callable[[Path], list[Tree]]  # made in an empty folder
    read: Callable[[Path], object]  # reads the folder of a case; raises NotFinite if the answer is not finite
    damage: Damage
    named: bool = False  # whether errors name the file
    share: int = 1  # share of the cases


def mutations_of(name: str, data: bytes) -> tuple[Mutation, ...]:
    if name.endswith(TEXT_ENDINGS):
        return TEXT
    return TEXT + BINARY if data[:5] in (b"# .PC", b"ply\nf") else BINARY


def damage_files(tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    """Damage one file; with several files, occasionally remove one, empty it, or replace it by another."""
    tree = dict(tree)
    name = pick(rng, sorted(tree))
    odd = rng.random()
    if len(tree) > 1 and odd < 0.04:
        del tree[name]
    elif len(tree) > 1 and odd < 0.08:
        tree[name] = tree[pick(rng, sorted(tree))]
    elif len(tree) > 1 and odd < 0.1:
        tree[name] = b""
    else:
        source = pick(rng, others)
        other = source.get(name) or source[pick(rng, sorted(source))]
        tree[name] = damaged(tree[name], rng, other, mutations_of(name, tree[name]))
    return tree


def tree_of(folder: Path) -> Tree:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_tree(tree: Tree, folder: Path) -> None:
    for name, data in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def check_finite(what: str, *arrays: np.ndarray | None) -> None:
    for array in arrays:
        if array is not None and not np.isfinite(array).all():
            raise NotFinite(what)


# --- structured data


ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 1000, 10**6, 10**9, 2**31, 2**63, 2**64, 10**30, 0.0, -0.5, 0.5, 1e-300, 1.7e308, "",
    "x", "0", "1e999", "nan", "objects", "é\x1b[2J", "\udcff", "../../etc", "a\0b", [], {}, [[]], [0], [1, 2, 3], ["a"], {"a": 1},
    [None],    "x" * 3000, [1] * 3000, [16] * 9,
)  # fmt: skip


def nested(depth: int, kind: int) -> Any:
    inner: Any = 1
    for _ in range(depth):
        inner = [inner] if kind == 0 else {"a": inner}
    return inner


def changed(value: Any, rng: Rng) -> Any:
    """A copy with one to three entries replaced, removed, doubled or renamed."""
    value = copy.deepcopy(value)
    for _ in range(int(rng.integers(1, 4))):
        spots = list(_spots(value))
        if not spots:
            return pick(rng, ODD)
        holder, key = pick(rng, spots)
        kind = rng.random()
        if kind < 0.6:
            holder[key] = copy.deepcopy(pick(rng, ODD))
        elif kind < 0.65:
            holder[key] = nested(int(rng.integers(2, 120)), int(rng.integers(2)))
        elif kind < 0.8:
            del holder[key]
        elif isinstance(holder, dict):
            other_holder, other_key = pick(rng, spots)
            entry = copy.deepcopy(other_holder[other_key])
            holder[pick(rng, (str(key) + "_", "", "x", str(other_key), "\udcff"))] = entry
        else:
            holder.append(copy.deepcopy(pick(rng, ODD)))
    return value


def _spots(value: Any):
    if isinstance(value, dict):
        for key, entry in value.items():
            yield value, key
            yield from _spots(entry)
    elif isinstance(value, list):
        for key, entry in enumerate(value):
            yield value, key
            yield from _spots(entry)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def split_safetensors(data: bytes) -> tuple[dict[str, Any], bytes]:
    (size,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join_safetensors(header: Any, rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + rest


def changed_metadata(header: dict[str, Any], name: str, rng: Rng) -> dict[str, Any]:
    """The file with a JSON entry of its metadata changed."""
    inner = json.loads(header["__metadata__"][name])
    return {**header, "__metadata__": {**header["__metadata__"], name: json.dumps(changed(inner, rng))}}
