"""The unit of a bag copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Item(NamedTuple):
    """A message or another record of the file. `write` writes it, or its replacement, to the copy.

    Items must be written in order, each exactly once.
    """

    raw: bytes
    cloud: bool  # whether it is a message of the chosen topic
    write: Callable[[bytes], None]
