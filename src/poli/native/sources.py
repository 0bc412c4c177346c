"""Which files decide what the code of a kernel is, and whether they are what they were: code made of others must never run."""

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
_ALWAYS = "kernel.py"  # says how all of them are compiled


def sources_of(module: str) -> dict[str, str]:
    """The module of a kernel, and all from which it has other kernels or constants: paths within the package, and digests."""
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
    """The first of these files that is not what it was, or None."""
    return next((path for path, was in sources.items() if digest(path) != was), None)


@cache
def digest(path: str) -> str:
    """Of a file as this process found it when it first asked: modules are not read again either."""
    try:
        text = (PACKAGE / path).read_bytes()
    except OSError:
        return "missing"
    return sha256(text.replace(b"\r\n", b"\n")).hexdigest()  # some checkouts change line ends


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
                # Of a module that writes LLVM instructions, plain functions and classes decide as well.
                if isinstance(value, _COMPILED_IN) or ("llvmlite" in _source(str(node.module)) and value is not None):
                    yield str(node.module)


@cache
def _source(name: str) -> str:
    return Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8")
