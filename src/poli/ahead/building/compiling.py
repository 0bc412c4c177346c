"""What numba makes of the kernels that a rehearsal calls."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.dispatcher import Dispatcher

from poli.ahead.building.entries import layout_of
from poli.ahead.building.rehearsal import rehearse
from poli.errors import PoliError


@dataclass(frozen=True)
class Compiled:
    module: str
    name: str  # with the module
    layout: str  # of all arguments but the range
    range: tuple[int, int]  # where `begin` and `end` stand among the arguments
    function: Any  # numba's description of it
    library: Any  # numba's, which holds it


def compile_rehearsed(cpu: str) -> list[Compiled]:
    """All kernels that take a range and were called, each for the one set of types that it was called with."""
    with tempfile.TemporaryDirectory() as empty:  # numba does not notice every change of what it keeps in its cache
        _prepare(cpu, cache=empty)
        rehearse()
    return [_compiled(kernel) for kernel in _called()]


def _prepare(cpu: str, cache: str) -> None:
    for name, value in {"CPU_NAME": cpu, "CPU_FEATURES": "", "CACHE_DIR": cache}.items():
        setattr(config, name, value)
    os.environ.update(POLI_NO_AHEAD="1", POLI_NUM_THREADS="1")
    finalize = JITCodeLibrary.finalize

    def finalize_and_keep(library: Any) -> None:
        """Generating code rewrites a module for the CPU, in place; what others link is a copy of before."""
        finalize(library)
        library._get_module_for_linking()

    setattr(JITCodeLibrary, "finalize", finalize_and_keep)  # noqa: B010


def _called() -> Iterator[Any]:
    for name, module in sorted(sys.modules.items()):
        for value in vars(module).values() if name.startswith("poli.") else ():
            here = isinstance(value, Dispatcher) and value.__module__ == name
            if here and value.overloads and {"begin", "end"} <= set(signature(value.py_func).parameters):
                yield value


def _compiled(kernel: Any) -> Compiled:
    name = f"{kernel.__module__}.{kernel.__name__}"
    parameters = list(signature(kernel.py_func).parameters)
    place = parameters.index("begin"), parameters.index("end")
    # Numba tells apart what is the same code, as of arrays that are read-only.
    layouts = {layout_of(types, *place): types for types in kernel.signatures}
    if len(layouts) > 1:
        raise PoliError(f"{name} is called with several sets of types; make its callers agree: {' or '.join(layouts)}")
    ((layout, types),) = layouts.items()
    result = kernel.overloads[types]
    return Compiled(kernel.__module__, name, layout, place, result.fndesc, result.library)
