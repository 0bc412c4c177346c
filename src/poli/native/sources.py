"""The source files that a kernel's code depends on, and whether they have changed: outdated code must never run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import numpy as np

from poli.native.numba_private import Dispatcher, Intrinsic

PACKAGE = Path(__file__).parent.parent
_COMPILED_IN = (Dispatcher, Intrinsic, bool, int, float, str, tuple, set, frozenset, np.ndarray, np.generic, np.dtype)
_ALWAYS = "kernel.py"  # defines how all kernels are compiled


def sources_of(module: str) -> dict[str, str]:
    """Return the module of a kernel and all modules whose kernels or constants it uses: paths within the package, and digests."""
    found: dict[str, ModuleType] = {}
    waiting = {module}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = sys.modules[name]
            waiting.update(_origins(name))
    paths = [Path(str(module.__file__)).relative_to(PACKAGE).as_posix() for module in found.values()]
    return {path: digest(path) for path in sorted([*paths, _ALWAYS])}


def changed(sources: dict[str, str]) -> str | None:
    """Return the first of these files that has changed, or None."""
    return next((path for path, was in sources.items() if digest(path) != was), None)


@cache
def digest(path: str) -> str:
    """Return the digest of a file, read once per process, as modules are."""
    try:
        text = (PACKAGE / path).read_bytes()
    except OSError:
        return "missing"
    return sha256(text.replace(b"\r\n", b"\n")).hexdigest()  # some checkouts change line endings


@cache
def _origins(name: str) -> tuple[str, ...]:
    module = sys.modules[name]
    return tuple(sorted(set(_imported(module))))


def _imported(module: ModuleType) -> Iterator[str]:
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("poli."):
            origin = sys.modules.get(str(node.module))
            for name in node.names if origin else ():
                value = vars(module).get(name.asname or name.name)
                # For a module that writes LLVM instructions, plain functions and classes matter as well.
                if isinstance(value, _COMPILED_IN) or ("llvmlite" in _source(str(node.module)) and value is not None):
                    yield str(node.module)


@cache
def _source(name: str) -> str:
    return Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8")
