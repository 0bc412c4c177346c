"""Memory that stays between calls: fresh memory is faulted in page by page, which costs a fifth of an estimate."""

from __future__ import annotations

import math
import threading

import numpy as np

_LARGEST = 8 << 20  # bytes of an array that is kept; a map of millions of points shall not stay behind it


class _Workspace(threading.local):
    """A thread's own, so that callers do not meet."""

    def __init__(self) -> None:
        self.kept: dict[str, np.ndarray] = {}  # bytes


_workspace = _Workspace()


def scratch(name: str, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """An array of anything, which is this thread's until it asks for the same name again. Not for what a caller is given."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    kept = _workspace.kept.get(name)
    if kept is None or len(kept) < size:
        kept = np.empty(size, np.uint8)
        if size <= _LARGEST:
            _workspace.kept[name] = kept
    return kept[:size].view(dtype).reshape(shape)
