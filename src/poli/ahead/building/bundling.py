"""Compiled kernels into one LLVM module, optimised, with nothing in it that only this machine has."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import llvmlite.binding as llvm
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from poli.ahead.building.compiling import Compiled
from poli.ahead.building.entries import add_entry
from poli.errors import PoliError


def bundle(kernels: Sequence[Compiled]) -> bytes:
    """Bitcode. Every kernel is entered by the function of its name (see `entries`); all else is internal."""
    codegen: Any = cpu_target.target_context.codegen()
    with global_compiler_lock:
        library = codegen.create_library("poli")
        entries = library.create_ir_module("poli")
        for kernel in kernels:
            library.add_linking_library(kernel.library)
            add_entry(entries, kernel.name, kernel.function, *kernel.range)
        library.add_ir_module(entries)
        library.add_llvm_module(llvm.parse_assembly(files(__package__).joinpath("support.ll").read_text(encoding="utf-8")))
        library.finalize()
    module = library._get_module_for_linking()
    names = {kernel.name for kernel in kernels}
    for item in [*module.functions, *module.global_variables]:
        if not item.is_declaration:
            item.linkage = "external" if item.name in names else "internal"
    _optimise(module, codegen._tm)
    for function in module.functions:
        if function.is_declaration and function.name.startswith(("llvm.x86", "NRT_", "numba_", "Py")):
            raise PoliError(f"kernels call {function.name}, which not every machine has; do without, or write it in support.ll")
    return module.as_bitcode()


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Once more, now that all callers are known: arguments that nobody reads go, and so does code that nobody calls."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = builder.getModulePassManager()
    passes.add_strip_symbols_pass()
    passes.run(module, builder)
