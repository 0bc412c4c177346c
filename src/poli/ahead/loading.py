"""Load what was compiled ahead, once in a process."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from poli.ahead.header import Header
from poli.ahead.layout import Layout, arrays_are_laid_out_as_expected

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)  # calls it without the GIL
# Kernels allocate their scratch memory by these: they are in every process, and need no GIL either.
_ALLOCATION = {"poli_allocate": ctypes.pythonapi.PyMem_RawMalloc, "poli_free": ctypes.pythonapi.PyMem_RawFree}

_lock = threading.Lock()
_kernels: Mapping[str, NativeKernel] | None = None


@dataclass(frozen=True)
class NativeKernel:
    function: Callable[[bytes, int, int], int]  # not zero: failed
    layout: Layout


def native_kernels() -> Mapping[str, NativeKernel]:
    """By qualified name. None at all if they cannot be used, for whatever reason: numba's dispatchers do the same, only later."""
    global _kernels
    if _kernels is None:
        with _lock:
            if _kernels is None:
                try:
                    _kernels = {} if os.environ.get("POLI_NO_AHEAD") else _load()
                except Exception:
                    _kernels = {}
    return _kernels


def _load() -> Mapping[str, NativeKernel]:
    known = sys.platform in ("linux", "darwin") and sys.byteorder == "little" and ctypes.sizeof(ctypes.c_void_p) == 8
    if not known or not arrays_are_laid_out_as_expected():
        return {}
    header = Header.read()
    if not header.is_current():
        return {}
    # Imported here: nobody who has no use for kernels waits for LLVM.
    from poli.ahead.linking import link
    from poli.ahead.object_code import object_code

    imports = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in _ALLOCATION.items()}
    addresses = link(object_code(header), imports, list(header.kernels))
    return {name: NativeKernel(_SIGNATURE(addresses[name]), Layout(layout)) for name, layout in header.kernels.items()}
