"""What a bag is made of, on its way into a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Item(NamedTuple):
    """A message, or whatever else lies in the file. `write` puts it, or what has become of it, where it stood; items are written
    in the order in which they come, each of them once."""

    raw: bytes
    cloud: bool  # a message of the topic that was asked for
    write: Callable[[bytes], None]
