"""`python -m poli.ahead.build`: compile the kernels of `poli.estimate` and `poli.pca` and write them beside this file.

Numba compiles what a rehearsal calls, for a fixed level of x86-64, so that the result does not hang on the machine. Of every kernel that
takes a range (`begin`, `end`) and was called with one set of types, the optimised code goes into one LLVM module.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import zlib
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from inspect import signature
from typing import Any

import llvmlite.binding as llvm
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

from poli.ahead.entries import add_entry, layout_of
from poli.ahead.fingerprint import fingerprint
from poli.ahead.header import BITCODE, FOLDER, OBJECT, Header
from poli.ahead.object_code import LEVEL, generate
from poli.ahead.rehearsal import rehearse
from poli.ahead.sources import sources_of
from poli.errors import PoliError


def main() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise PoliError(f"kernels are built on Linux on x86-64, not on {sys.platform} on {platform.machine()}")
    with tempfile.TemporaryDirectory() as empty:  # numba does not notice all changes of what it has compiled before
        _prepare_numba(cache=empty)
        rehearse()
    kernels = {f"{kernel.__module__}.{kernel.__name__}": kernel for kernel in _called()}
    module = _linked(kernels)
    bitcode = module.as_bitcode()
    contents = {
        BITCODE: zlib.compress(bitcode, 9),
        OBJECT: zlib.compress(generate(bitcode, llvm.get_process_triple(), LEVEL, ""), 9),
    }
    for name, content in contents.items():
        (FOLDER / name).write_bytes(content)
    sources = sources_of(kernel.__module__ for kernel in kernels.values())
    Header(
        kernels={name: _layout(kernel)[0] for name, kernel in sorted(kernels.items())},
        sources=sources,
        fingerprint=fingerprint(sources),
        digests={name: sha256(content).hexdigest() for name, content in contents.items()},
        llvm=llvm.llvm_version_info[0],
        numba=version("numba"),
    ).write()
    sizes = ", ".join(f"{name} {len(content) / 1000:.0f} kB" for name, content in contents.items())
    print(f"{len(kernels)} kernels of {len(sources)} files: {sizes}")


def _prepare_numba(cache: str) -> None:
    config.CPU_NAME, config.CPU_FEATURES, config.CACHE_DIR = LEVEL, "", cache
    os.environ.update(POLI_NO_AHEAD="1", POLI_NUM_THREADS="1")
    finalize = JITCodeLibrary.finalize

    def finalize_and_keep(library: Any) -> None:
        """Generating code rewrites a module for the CPU, in place; what is linked is a copy of before."""
        finalize(library)
        library._get_module_for_linking()

    JITCodeLibrary.finalize = finalize_and_keep


def _called() -> Iterator[Dispatcher]:
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("poli.")]
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Dispatcher) and value.__module__ == module.__name__ and value.overloads and _takes_range(value):
                yield value


def _takes_range(kernel: Dispatcher) -> bool:
    return {"begin", "end"} <= set(signature(kernel.py_func).parameters)


def _range(kernel: Dispatcher) -> tuple[int, int]:
    """Where `begin` and `end` stand among its arguments."""
    names = list(signature(kernel.py_func).parameters)
    return names.index("begin"), names.index("end")


def _layout(kernel: Dispatcher) -> tuple[str, tuple]:
    """And one of the sets of types that numba compiled it for: it tells apart what the code does not, as arrays that are read-only."""
    found = {layout_of(types, *_range(kernel)): types for types in kernel.signatures}
    if len(found) > 1:
        raise PoliError(f"{kernel.__module__}.{kernel.__name__} takes several sets of types; make its callers agree: {list(found)}")
    return found.popitem()


def _linked(kernels: dict[str, Dispatcher]) -> llvm.ModuleRef:
    """All kernels behind functions of their names that take slots. Nothing else is visible, and nothing unused is left."""
    codegen = cpu_target.target_context.codegen()
    with global_compiler_lock:
        library = codegen.create_library("poli")
        module = library.create_ir_module("poli")
        for name, kernel in kernels.items():
            compiled = kernel.overloads[_layout(kernel)[1]]
            library.add_linking_library(compiled.library)
            add_entry(module, name, compiled.fndesc, *_range(kernel))
        library.add_ir_module(module)
        library.add_llvm_module(llvm.parse_assembly(files("poli.ahead").joinpath("support.ll").read_text(encoding="utf-8")))
        library.finalize()
    final = library._get_module_for_linking()
    for item in [*final.functions, *final.global_variables]:
        if not item.is_declaration:
            item.linkage = "external" if item.name in kernels else "internal"
    _optimise(final, codegen._tm)
    for function in final.functions:
        if function.name.startswith("llvm.x86") or (function.is_declaration and function.name.startswith(("NRT", "numba"))):
            raise PoliError(f"the kernels call {function.name}, which not every machine has; see support.ll")
    return final


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Once more, now that all callers are known: arguments that nobody reads and code that nobody calls go."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = builder.getModulePassManager()
    passes.add_strip_symbols_pass()
    passes.run(module, builder)


if __name__ == "__main__":
    main()
