"""`@kernel`: compile a function with numba, without the GIL, and cache the machine code in the user's cache folder.

numba's cache compares a kernel's own file only, and would run outdated code of other kernels that are compiled into it. So each
module caches in a folder that is named by a digest of its source and of all modules of the package that it imports. Without a
usable cache, numba compiles in every process.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import extending, njit
from numba.core import event

config: Any = numba.config  # its attributes are created at import
intrinsic: Any = extending.intrinsic  # decorates functions of numba types, not of the callers' values
PACKAGE = os.path.dirname(os.path.abspath(__file__))
_IMPORT = re.compile(rb"^from (poli[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
# They change the code; numba's key has none.
_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE")
_LONGEST_UNUSED = 90 * 86400.0  # seconds
_NEEDED = 1 << 27  # bytes; numba fails if the disk is full
_lock = RLock()  # modules may be imported by several threads


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """Decorate a function as `@kernel`, or as `@kernel(inline="always")` with numba options."""
    if function is None:
        return lambda function: kernel(function, **options)
    folder = _module_folder(function.__code__.co_filename)
    if folder is not None:
        with _lock:
            before, config.CACHE_DIR = config.CACHE_DIR, folder  # read by the decorator alone
            try:
                compiled = njit(nogil=True, cache=True, **options)(function)
            finally:
                config.CACHE_DIR = before
        if not hasattr(compiled, "stats") or compiled.stats.cache_path.startswith(folder):  # plain under NUMBA_DISABLE_JIT
            return compiled
    return njit(nogil=True, **options)(function)


def over_range(kernel: Callable, *args: Any) -> Callable[[int, int], None]:
    """Return a function of (begin, end) that calls `kernel`, for `threads.run_chunks`. `args` are its other arguments, in order."""
    place = kernel.__code__.co_varnames.index("begin")
    before, after = args[:place], args[place:]
    return lambda begin, end: kernel(*before, begin, end, *after)


def in_turns(kernel: Callable, *args: Any) -> Callable[[np.ndarray], None]:
    """Return a function of `turns` that calls `kernel`, for `threads.run_turns`. `args` are its other arguments, in order."""
    place = kernel.__code__.co_varnames.index("turns")
    before, after = args[:place], args[place:]
    return lambda turns: kernel(*before, turns, *after)


def readable(array: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """Return the array as a kernel's input: contiguous and read-only, whatever was passed, so that numba compiles only once."""
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view


@cache
def kernel_cache() -> tuple[str, str]:
    """Return the folder of the cache, which is created, and why it cannot be used, or an empty string."""
    base = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(os.path.abspath(base), "poli", "kernels")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK) or shutil.disk_usage(folder).free < _NEEDED:
            return folder, f"{folder} cannot be written, or its disk is full"
    except OSError as error:
        return folder, f"{folder}: {error.strerror}"
    return folder, ""


@cache
def _module_folder(source: str) -> str | None:
    """Return where a module caches its kernels, or None. Removes damaged files, on which numba would fail."""
    root, trouble = kernel_cache()
    if trouble or not source.startswith(PACKAGE + os.sep):
        return None
    digests: dict[str, str] = {}
    waiting = [source, __file__]
    try:
        while waiting:
            path = waiting.pop()
            if path not in digests:
                digests[path], imported = _source(path)
                waiting += imported
        versions = (numba.__version__, llvmlite.__version__, *(getattr(config, name, None) for name in _SETTINGS))
        folder = os.path.join(root, sha256(repr((versions, sorted(digests.values()))).encode()).hexdigest()[:16])
        os.makedirs(folder, exist_ok=True)
        os.utime(folder)  # the last use
        for file in Path(folder).glob("*/*.nb?"):
            content = file.read_bytes() if file.is_file() else b""
            if not (content.startswith(b"\x80") and content.endswith(b".")):  # a complete pickle
                file.unlink(missing_ok=True)
    except OSError:
        return None
    return folder


@cache
def _source(path: str) -> tuple[str, list[str]]:
    """Return the digest of a source file, and the files of the package that it imports from."""
    text, imported = Path(path).read_bytes(), list[str]()
    for module, names in _IMPORT.findall(text):
        place = Path(PACKAGE, *module.decode().split(".")[1:])
        places = (place, place / "__init__", *(place / name for name in re.findall(r"\w+", names.decode())))
        imported += [f"{found}.py" for found in places if os.path.isfile(f"{found}.py")]
    return sha256(text).hexdigest(), imported


class _Notice(event.Listener):
    """Print one line on stderr when the first kernel is compiled. Also remove code that has not been used for long."""

    said = False

    def on_start(self, event: Any) -> None:
        name = event.data["dispatcher"].py_func.__module__
        if self.said or not name.startswith("poli."):
            return
        self.said = True
        folder, trouble = kernel_cache()
        if os.environ.get("POLI_NOTICE") != "0":
            kept = f"not cached: {trouble}" if trouble else f"cached in {folder}"
            print(f"poli: compiling kernels, first of {name}; this takes up to a minute ({kept})", file=sys.stderr, flush=True)
        with suppress(OSError):
            for old in () if trouble else os.scandir(folder):
                if time.time() - old.stat().st_mtime > _LONGEST_UNUSED:
                    shutil.rmtree(old, ignore_errors=True)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Notice())
