"""One line on stderr, once a process, when a user has to wait for a compiler, and why. `POLI_NATIVE_NOTICE=0` keeps it back."""

from __future__ import annotations

import os
import sys

from poli.native import user_cache

_said = False


def say_compiling(reason: str) -> None:
    global _said
    if _said or os.environ.get("POLI_NATIVE_NOTICE") == "0":
        return
    _said = True
    trouble = user_cache.trouble()
    kept = f"not kept: {trouble}" if trouble else "kept for later"
    print(f"poli: numba compiles kernels now, which takes up to a minute ({reason}; {kept})", file=sys.stderr, flush=True)
