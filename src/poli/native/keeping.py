"""What a kernel's dispatcher asks: is there code for these types? Else numba compiles, and the code is kept."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from numba.core import event

from poli.native import user_cache
from poli.native.bundle import Bundle, Overload, bundled
from poli.native.machine import obstacle, this_process
from poli.native.numba_private import Dispatcher, KernelCache, rebuild, reduce, use_cache
from poli.native.package import find
from poli.native.sources import PACKAGE, changed, digest, sources_of

_said = False


def keep_compiled(dispatcher: Any) -> Any:
    """The same dispatcher, which now finds what was compiled before."""
    if isinstance(dispatcher, Dispatcher):  # no mere function, as under NUMBA_DISABLE_JIT
        function = dispatcher.py_func
        path = Path(function.__code__.co_filename)
        if path.is_relative_to(PACKAGE):  # a kernel that somebody wrote elsewhere is compiled as numba does it
            digest(path.relative_to(PACKAGE).as_posix())  # of the text that was imported
            name = f"{function.__module__}.{function.__qualname__}"
            use_cache(dispatcher, KernelCache(partial(_load, name), partial(_save, name, function.__module__)))
    return dispatcher


def _load(kernel: str, types: tuple, context: Any) -> Any:
    """Numba holds its lock meanwhile."""
    words = repr(types)
    bundle, reason = find(kernel, words)
    result = _rebuilt(bundle, kernel, words, types, context) or _rebuilt(_kept(kernel, words), kernel, words, types, context)
    if result is None and not _Compiling.depth:
        say_compiling(reason or f"the code of {kernel} does not fit")
    return result


def _save(kernel: str, module: str, types: tuple, result: Any) -> None:
    parts = reduce(result)
    if parts is not None:
        words = repr(types)
        user_cache.keep(_name(kernel, words), bundled(this_process(), [Overload(kernel, words, sources_of(module), parts)]))


def _name(kernel: str, types: str) -> str:
    """Of the file in the user's cache. Every installation has its own, or two that differ would take turns in replacing them."""
    return user_cache.name_of(str(PACKAGE), kernel, types, sorted(this_process().items()))


def _kept(kernel: str, types: str) -> Bundle | None:
    """From the user's cache, if it is of today's sources."""
    open_file = user_cache.opener(_name(kernel, types))
    if open_file is None:
        return None
    try:
        bundle = Bundle(open_file)
        fits = bundle.holds(kernel, types) and not obstacle(bundle.made_for) and not changed(bundle.sources(kernel, types))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return bundle if fits else None


def _rebuilt(bundle: Bundle | None, kernel: str, words: str, types: tuple, context: Any) -> Any:
    if bundle is None:
        return None
    try:
        result = rebuild(context, *bundle.read(kernel, words))
    except Exception:  # whatever is wrong with it, numba compiles
        return None
    return result if result is not None and tuple(result.signature.args) == types else None


class _Compiling(event.Listener):
    """How deep numba is in compiling: a kernel that another calls is part of the same wait."""

    depth = 0

    def on_start(self, event: Any) -> None:
        _Compiling.depth += 1

    def on_end(self, event: Any) -> None:
        _Compiling.depth -= 1


event.register("numba:compile", _Compiling())


def say_compiling(reason: str) -> None:
    """Print one line on stderr, once a process: the user has to wait, and why. `POLI_NATIVE_NOTICE=0` keeps it back."""
    global _said
    if _said or os.environ.get("POLI_NATIVE_NOTICE") == "0":
        return
    _said = True
    trouble = user_cache.trouble()
    kept = f"not kept: {trouble}" if trouble else "kept for later"
    print(f"poli: numba compiles kernels now, which takes up to a minute ({reason}; {kept})", file=sys.stderr, flush=True)
