"""How much of the memory a file may take before anything has been checked.

A few bytes can promise any number of points, and a compressed block can inflate to a thousand times its size. So counts are
held against the bytes that are there, and inflated sizes against packed ones. What a file may inflate to:

    always to 256 MiB, beyond it to 100 times its size, and never to more than 16 GiB.

Sensors' data shrink to a half or a tenth, seldom to less. Whoever has a file that is sound and larger sets `POLI_MAX_INFLATED` to
what it may inflate to, in bytes or as `64G`; worker processes inherit it.
"""

from __future__ import annotations

import os
import re

from poli.errors import FormatError, InputError

VARIABLE = "POLI_MAX_INFLATED"
_ALWAYS = 256 << 20
_RATIO = 100
_MOST = 16 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def largest_inflated(packed: int) -> int:
    """To how many bytes `packed` ones may inflate."""
    text = os.environ.get(VARIABLE, "").strip()
    if text:
        return _parse(text)
    return min(max(_ALWAYS, _RATIO * packed), _MOST)


def check_inflated(where: object, packed: int, inflated: int, known: bool = True) -> None:
    """Before anything is allocated. `where` names the file in the error. Not `known`: there may be more to come."""
    most = largest_inflated(packed)
    if inflated > most:
        size, enough = (f"{inflated}, more", _rounded(inflated)) if known else ("more", f"more, such as {_rounded(4 * most)}")
        raise FormatError(
            f"{where}: {packed} bytes would inflate to {size} than the {most} that are allowed; "
            f"if the file is sound, set the environment variable {VARIABLE} to {enough}"
        )


class Budget:
    """What one file inflates to in the course of reading it, block by block."""

    def __init__(self, where: object) -> None:
        self.where = where
        self._packed = self._inflated = 0

    def room(self, packed: int) -> int:
        """How many bytes may come out of a block of `packed` ones."""
        return max(0, largest_inflated(self._packed + packed) - self._inflated)

    def check(self, packed: int, promised: int) -> None:
        """Whether a block may become what it says it will."""
        check_inflated(self.where, self._packed + packed, self._inflated + promised)

    def spend(self, packed: int, inflated: int) -> None:
        """Count a block, as far as it was inflated. Blocks that are read twice count twice on both sides."""
        check_inflated(self.where, self._packed + packed, self._inflated + inflated, known=False)
        self._packed += packed
        self._inflated += inflated


def _parse(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,18})\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise InputError(f"{VARIABLE} is {text[:40]!r}; expected a number of bytes, such as 4000000000 or 4G")
    return int(found[1]) * _UNITS[found[2].upper()]


def _rounded(inflated: int) -> str:
    """A limit that is enough, in the unit that is nearest."""
    unit = max((u for u in "MG" if _UNITS[u] <= inflated), key=_UNITS.__getitem__, default="M")
    return f"{-(-inflated // _UNITS[unit])}{unit}"
