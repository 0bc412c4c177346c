"""Give kernels compiled code from the package or the user's cache; otherwise let numba compile, and keep the result."""

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
    """Make a dispatcher look for compiled code before it compiles, and return it."""
    if isinstance(dispatcher, Dispatcher):  # a plain function under NUMBA_DISABLE_JIT
        function = dispatcher.py_func
        path = Path(function.__code__.co_filename)
        if path.is_relative_to(PACKAGE):  # kernels outside the package are left to numba
            digest(path.relative_to(PACKAGE).as_posix())  # cache the digest of the text that was imported
            name = f"{function.__module__}.{function.__qualname__}"
            use_cache(dispatcher, KernelCache(partial(_load, name), partial(_save, name, function.__module__)))
    return dispatcher


def _load(kernel: str, types: tuple, context: Any) -> Any:
    """Load compiled code, or return None. Numba holds its lock during the call."""
    words = repr(types)
    bundle, reason = find(kernel, words)
    result = _rebuilt(bundle, kernel, words, types, context) or _rebuilt(_kept(kernel, words), kernel, words, types, context)
    if result is None and not _Compiling.depth:
        say_compiling(reason or f"the compiled code of {kernel} cannot be loaded")
    return result


def _save(kernel: str, module: str, types: tuple, result: Any) -> None:
    parts = reduce(result)
    if parts is not None:
        words = repr(types)
        user_cache.keep(_name(kernel, words), bundled(this_process(), [Overload(kernel, words, sources_of(module), parts)]))


def _name(kernel: str, types: str) -> str:
    """Return the name of the file in the user's cache.

    It includes the path of the installation, so that two different installations do not keep replacing each other's files."""
    return user_cache.name_of(str(PACKAGE), kernel, types, sorted(this_process().items()))


def _kept(kernel: str, types: str) -> Bundle | None:
    """Return the file from the user's cache if it was compiled from the present sources, or None."""
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
    except Exception:  # on any error, numba compiles
        return None
    return result if result is not None and tuple(result.signature.args) == types else None


class _Compiling(event.Listener):
    """Track the nesting depth of compilation: kernels called by another are compiled as part of it."""

    depth = 0

    def on_start(self, event: Any) -> None:
        _Compiling.depth += 1

    def on_end(self, event: Any) -> None:
        _Compiling.depth -= 1


event.register("numba:compile", _Compiling())


def say_compiling(reason: str) -> None:
    """Print one line on stderr, once per process, that kernels are being compiled and why. `POLI_NATIVE_NOTICE=0` disables it."""
    global _said
    if _said or os.environ.get("POLI_NATIVE_NOTICE") == "0":
        return
    _said = True
    trouble = user_cache.trouble()
    kept = f"not cached: {trouble}" if trouble else "cached for next time"
    print(f"poli: numba is compiling kernels, which takes up to a minute ({reason}; {kept})", file=sys.stderr, flush=True)
