"""How long a thing takes that has been done before."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def timed_again(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result and the seconds of the second of two calls: the first may wait for a compiler."""
    work()
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin
