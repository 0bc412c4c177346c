"""Memory reused between calls: fresh memory is faulted in page by page, which takes a fifth of the time of an estimate."""

from __future__ import annotations

import math
import threading

import numpy as np

_LARGEST = 8 << 20  # bytes: larger arrays are not kept, so a map of millions of points does not occupy memory afterwards


class _Workspace(threading.local):
    """One workspace per thread, so that concurrent callers do not share memory."""

    def __init__(self) -> None:
        self.kept: dict[str, np.ndarray] = {}  # bytes


_workspace = _Workspace()


def scratch(name: str, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Return an uninitialized array, valid until this thread requests the same name again. Never return it to a user."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    kept = _workspace.kept.get(name)
    if kept is None or len(kept) < size:
        kept = np.empty(size, np.uint8)
        if size <= _LARGEST:
            _workspace.kept[name] = kept
    return kept[:size].view(dtype).reshape(shape)
