"""How arguments travel from Python to a kernel that was compiled ahead: as one row of 64-bit slots.

A number takes one slot. An array takes one for its address and one for each extent: strides follow, since it is contiguous. Tuples
are nothing but their members. A layout is written as the types of the slots' owners: `f4[2]` is a matrix of float32, `i8` a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct, error
from typing import Any

import numpy as np

_NUMBERS = {"i8": "q", "f8": "d", "f4": "f4x", "b1": "?7x"}  # how `struct` fills a slot
_ARRAY = re.compile(r"([a-z]\d)\[(\d)\]")
_USABLE = 0x101  # numpy's flags: contiguous in C's order, and aligned


class Layout:
    def __init__(self, text: str) -> None:
        self._types: list[tuple[np.dtype, int] | None] = []
        form = "="
        for word in text.split():
            array = _ARRAY.fullmatch(word)
            self._types.append((np.dtype(array[1]), int(array[2])) if array else None)
            form += "q" * (1 + int(array[2])) if array else _NUMBERS[word]
        self._form = Struct(form)

    def slots(self, args: tuple) -> bytes | None:
        """The slots, or None if these are arguments of other types. Whoever uses them keeps the arguments alive."""
        values: list[Any] = []
        try:
            for value, expected in zip(_members(args), self._types, strict=True):
                if expected is None:
                    values.append(value)
                elif (value.dtype, value.ndim) == expected and value.flags.num & _USABLE == _USABLE:
                    values.append(value.__array_interface__["data"][0])
                    values += value.shape
                else:
                    return None
            return self._form.pack(*values)
        except (AttributeError, ValueError, error):  # not an array, too many or too few, not a number
            return None


def _members(args: tuple) -> Iterator[Any]:
    for arg in args:
        if type(arg) is tuple:
            yield from arg
        else:
            yield arg
