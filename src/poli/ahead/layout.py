"""How arguments travel from Python to a kernel that was compiled ahead: as one row of 64-bit slots.

A number takes one slot. So does an array: the address of numpy's object, in which the kernel finds the data and the shape, because
asking each array for these in Python costs more than all the rest of a call. Strides follow, since arrays are contiguous. Tuples
are nothing but their members. A layout is written as the types of its slots: `f4[2]` is a matrix of float32, `i8` a number.
"""

from __future__ import annotations

import ctypes
import re
from struct import Struct, error
from typing import Any

import numpy as np

_NUMBERS = {"i8": "q", "f8": "d", "f4": "f4x", "b1": "?7x"}  # how `struct` fills a slot
_ARRAY = re.compile(r"([a-z]\d)\[(\d)\]")
_USABLE = 0x101  # numpy's flags: contiguous in C's order, and aligned
# Where numpy's objects have the address of their data and that of their shape: its C headers promise this to compiled code.
DATA_AT, SHAPE_AT = 16, 32


class Layout:
    def __init__(self, text: str) -> None:
        words = text.split()
        arrays = [(place, _ARRAY.fullmatch(word)) for place, word in enumerate(words)]
        self._count = len(words)
        self._arrays = [(place, (np.dtype(array[1]), int(array[2]))) for place, array in arrays if array]
        self._form = Struct("=" + "".join(_NUMBERS.get(word, "q") for word in words))

    def slots(self, args: tuple) -> bytes | None:
        """The slots, or None if these are arguments of other types. Whoever uses them keeps the arguments alive."""
        values: list[Any] = []
        for arg in args:
            if type(arg) is tuple:
                values += arg
            else:
                values.append(arg)
        if len(values) != self._count:
            return None
        for place, expected in self._arrays:
            value = values[place]
            if not isinstance(value, np.ndarray) or (value.dtype, value.ndim) != expected or value.flags.num & _USABLE != _USABLE:
                return None
            values[place] = id(value)
        try:
            return self._form.pack(*values)
        except error:  # not a number, or not a whole one
            return None


def arrays_are_laid_out_as_expected() -> bool:
    """Other Pythons than the common one have other objects."""
    if object.__basicsize__ != DATA_AT:
        return False
    probe = np.zeros((5, 7))
    data, shape = (ctypes.c_void_p.from_address(id(probe) + place).value for place in (DATA_AT, SHAPE_AT))
    return data == probe.ctypes.data and (ctypes.c_int64 * 2).from_address(shape or 0)[:] == [5, 7]
