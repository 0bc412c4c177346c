"""Which files decide what the code of a kernel is."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

from poli.ahead.fingerprint import PACKAGE

_COMPILED_IN = (Dispatcher, _Intrinsic, bool, int, float, tuple, set, frozenset, np.ndarray, np.generic)
# How kernels are compiled, and how they are entered.
_ALWAYS = ("kernel.py", "ahead/layout.py", "ahead/building/entries.py", "ahead/building/support.ll")


def sources_of(modules: Iterable[str]) -> list[str]:
    """The modules of these kernels, and all from which they have other kernels or constants; as paths within the package."""
    found: dict[str, ModuleType] = {}
    waiting = set(modules)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = sys.modules[name]
            waiting.update(_origins(found[name]))
    paths = [Path(str(module.__file__)).relative_to(PACKAGE).as_posix() for module in found.values()]
    return sorted([*paths, *_ALWAYS])


def _origins(module: ModuleType) -> Iterator[str]:
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("poli."):
            for name in node.names:
                if isinstance(vars(module).get(name.asname or name.name), _COMPILED_IN):
                    yield str(node.module)
