"""Object code into this process, by LLVM's own linker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import llvmlite.binding as llvm

_linked: list[object] = []  # keeps the code where it is, to the end of the process


def link(code: bytes, imports: Mapping[str, int], exports: Sequence[str]) -> dict[str, int]:
    """Addresses of the exported functions. Not by MCJIT, as numba does: that ends the process where a symbol is missing, and on ARM
    may scatter code farther than its jumps reach."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, address in imports.items():
        library.import_symbol(name, address)
    for name in exports:
        library.export_symbol(name)
    linked = library.link(engine, "poli")
    _linked.extend((engine, linked))
    return {name: linked[name] for name in exports}
