"""Damage to structured data: nested JSON and TOML tables, and safetensors headers."""

from __future__ import annotations

import copy
import json
import struct
from typing import Any

from .mutations import Rng, pick

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


def as_toml(value: dict[str, Any]) -> bytes:
    """Write inline tables throughout, which is valid TOML; values that TOML cannot express become invalid words."""
    return "".join(f"{_key(key)} = {_toml(entry)}\n" for key, entry in value.items()).encode("utf-8", "surrogatepass")


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else json.dumps(key, ensure_ascii=False)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "none" if value is None else json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


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
