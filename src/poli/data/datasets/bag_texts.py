"""The texts in bags, YAML and definitions of messages, within what they take in bags that somebody recorded.

Their parsers are Python: brackets in one another take quadratic time, and a definition of some megabytes takes minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

_DEEPEST = 64  # brackets in one another; QoS profiles and metadata have three
_LARGEST = 8 << 20  # bytes of YAML
_MOST_LINES = 40_000  # of all definitions of a bag, but for comments; those of a whole robot have a tenth
_FIELD = re.compile(r"^[ \t]*[^#\s/=]", re.MULTILINE)

_lines: ContextVar[list[int]] = ContextVar("lines")


@contextmanager
def counting_definitions() -> Iterator[None]:
    """Definitions that are parsed inside are of one bag."""
    token = _lines.set([0])
    try:
        yield
    finally:
        _lines.reset(token)


@cache
def guard_rosbags_texts() -> None:
    """From now on rosbags parses texts within bounds, in this process."""
    from rosbags.highlevel import anyreader
    from rosbags.rosbag2 import metadata, reader

    for module in (metadata, reader):
        vars(module)["YAML"] = shallow_yaml
    for name in ("get_types_from_msg", "get_types_from_idl"):
        setattr(anyreader, name, _counted(getattr(anyreader, name)))


def shallow_yaml(**options: Any) -> Any:
    """ruamel's YAML, whose `load` refuses what is nested too deep."""
    from ruamel.yaml import YAML

    parser: Any = YAML(**options)
    load = parser.load
    parser.load = lambda text: load(_checked(text))
    return parser


def _checked(text: str) -> str:
    if len(text) > _LARGEST:
        raise ValueError(f"YAML of {len(text)} characters; at most {_LARGEST} are read")
    depth = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth = max(0, depth + (1 if bracket in "[{" else -1))
        if depth > _DEEPEST:
            raise ValueError(f"YAML of more than {_DEEPEST} brackets in one another")
    return text


def _counted(parse: Callable[..., Any]) -> Callable[..., Any]:
    def counted(text: str, *rest: Any) -> Any:
        lines = _lines.get([0])
        lines[0] += len(_FIELD.findall(text))
        if lines[0] > _MOST_LINES:
            raise ValueError(f"definitions of messages have more than {_MOST_LINES} lines")
        return parse(text, *rest)

    return counted
