"""Limits for the texts in bags: YAML and message definitions.

Their parsers are written in Python: nested brackets take quadratic time, and a definition of a few megabytes takes minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

_DEEPEST = 64  # nested brackets; QoS profiles and metadata have three
_LARGEST = 8 << 20  # bytes of YAML
_MOST_LINES = 40_000  # of all definitions of a bag, without comments; a whole robot needs a tenth
_FIELD = re.compile(r"^[ \t]*[^#\s/=]", re.MULTILINE)

_lines: ContextVar[list[int]] = ContextVar("lines")


@contextmanager
def counting_definitions() -> Iterator[None]:
    """Count the definitions parsed inside the `with` block as those of one bag."""
    token = _lines.set([0])
    try:
        yield
    finally:
        _lines.reset(token)


@cache
def guard_rosbags_texts() -> None:
    """Limit the texts that rosbags parses, for the lifetime of this process."""
    from rosbags.highlevel import anyreader
    from rosbags.rosbag2 import metadata, reader

    for module in (metadata, reader):
        vars(module)["YAML"] = shallow_yaml
    for name in ("get_types_from_msg", "get_types_from_idl"):
        setattr(anyreader, name, _counted(getattr(anyreader, name)))


def shallow_yaml(**options: Any) -> Any:
    """Return a ruamel YAML parser whose `load` rejects deeply nested or large text."""
    from ruamel.yaml import YAML

    parser: Any = YAML(**options)
    load = parser.load
    parser.load = lambda text: load(_checked(text))
    return parser


def _checked(text: str) -> str:
    if len(text) > _LARGEST:
        raise ValueError(f"YAML of {len(text)} characters; the limit is {_LARGEST}")
    depth = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth = max(0, depth + (1 if bracket in "[{" else -1))
        if depth > _DEEPEST:
            raise ValueError(f"YAML with more than {_DEEPEST} nested brackets")
    return text


def _counted(parse: Callable[..., Any]) -> Callable[..., Any]:
    def counted(text: str, *rest: Any) -> Any:
        lines = _lines.get([0])
        lines[0] += len(_FIELD.findall(text))
        if lines[0] > _MOST_LINES:
            raise ValueError(f"the message definitions have more than {_MOST_LINES} lines")
        return parse(text, *rest)

    return counted
