"""safetensors files whose bytes depend on nothing but what they hold."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

from poli.errors import MissingExtra
from poli.files.atomic import atomic_path

try:
    import torch
    from safetensors.torch import save
except ImportError:
    raise MissingExtra("poli.learn", "train") from None

_LENGTH = struct.Struct("<Q")  # of the header, before it
_ALIGNED = 8  # bytes: where the tensors begin


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """The library writes the metadata in an order that differs from process to process; here it is that of the names."""
    whole = save({name: t.detach().contiguous().clone() for name, t in tensors.items()}, dict(metadata))
    begin = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
    header = json.loads(whole[_LENGTH.size : begin])
    entries = {name: header[name] for name in sorted(header, key=lambda name: header[name].get("data_offsets", [-1, -1]))}
    entries["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(_LENGTH.pack(len(text)) + text)
        file.write(memoryview(whole)[begin:])
