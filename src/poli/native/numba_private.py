"""All uses of numba beyond its public interface: the cache of a dispatcher, and moving compiled code between processes.

Tested with numba 0.60 to 0.68 (`make test-numba` runs the oldest and the newest that `pyproject.toml` allows). The names used are
`Dispatcher._cache` with its methods, `CompileResult._reduce` and `compile_result`, `JITCodeLibrary` with `_set_compiled_object`,
`_finalize_final_module`, `_get_module_for_linking` and `_shared_module`, `JitEngine._defined_symbols`, `rtsys`, `set_env`, and
numba's pickler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import compile_result
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic as Intrinsic
from numba.core.runtime import rtsys
from numba.core.serialize import dumps, loads

__all__ = ["TESTED", "Dispatcher", "Intrinsic", "KernelCache", "Parts", "rebuild", "reduce", "types_of", "use_cache"]

TESTED = ("0.60.0", "0.68.1")  # the oldest and the newest


@dataclass(frozen=True)
class Parts:
    """A compiled overload as bytes."""

    state: bytes  # numba's description of it: a pickle, read only by `rebuild`
    code: bytes  # an object file
    bitcode: bytes  # for kernels that call this one and are compiled later


class KernelCache(NullCache):
    """A dispatcher's cache: `load` is called before compiling, `save` afterwards."""

    def __init__(self, load: Callable[[tuple, Any], Any], save: Callable[[tuple, Any], None]) -> None:
        self._load, self._save = load, save

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._load(_types(sig), target_context)

    def save_overload(self, sig: Any, cres: Any) -> None:
        self._save(_types(sig), cres)


def use_cache(dispatcher: Any, cache: KernelCache) -> None:
    dispatcher._cache = cache


def _types(signature: Any) -> tuple:
    """Return the argument types; numba passes them alone, or as a signature with a return type."""
    return tuple(getattr(signature, "args", signature))


def reduce(result: Any) -> Parts | None:
    """Return a compiled overload as bytes, or None if it contains addresses of this process."""
    if result.objectmode or result.lifted or result.library.has_dynamic_globals:
        return None
    (name, _, (code, bitcode)), description, environment, signature, _, _, _, reload, environments = result._reduce()
    module = result.library._final_module
    names = [item.name for items in (module.functions, module.global_variables) for item in items if item.is_declaration]
    imports = [name for name in names if not name.startswith("llvm.")]
    if any(name.startswith(".numba.unresolved") for name in imports):  # a function that calls itself
        return None
    # Most environments belong to numba's own functions, which are inlined; they are never used, and loading them imports half of
    # numba.
    text = str(module)
    used = [found for found in environments if text.count(found.env_name) > 1 and found is not environment]
    return Parts(dumps((name, description, environment, signature, reload, used, imports)), code, bitcode)


def rebuild(context: Any, state: bytes, code: bytes, bitcode: Callable[[], bytes]) -> Any:
    """Return the overload in this process, ready to be called, or None if numba lacks a symbol that the code calls.

    Numba's own method would first initialize its compiler (0.45 s) and parse the bitcode; neither is needed for a call.
    """
    rtsys.initialize(context)
    name, description, environment, signature, reload, environments, imports = loads(state)
    if any(llvm.address_of_symbol(symbol) is None for symbol in imports):  # LLVM would abort the process
        return None
    for prepare in reload:
        prepare()
    library = _StoredLibrary(context.codegen(), name, code, bitcode)
    library.define(description.llvm_cpython_wrapper_name, description.llvm_func_name)
    entry_point = context.get_executable(library, description, environment)
    for needed in environments:
        library.codegen.set_env(needed.env_name, needed)
    return compile_result(
        target_context=context, typing_context=context.typing_context, library=library, environment=environment,
        entry_point=entry_point, fndesc=description, type_annotation="", signature=signature, objectmode=False, lifted=(),
        reload_init=reload, referenced_envs=tuple(environments),
    )  # fmt: skip


def types_of(state: bytes) -> tuple:
    """Return the argument types of a stored overload."""
    return tuple(loads(state)[3].args)


class _StoredLibrary(JITCodeLibrary):
    """Object code compiled earlier. Its bitcode is read only if another kernel is linked with it, which is rare."""

    def __init__(self, codegen: Any, name: str, code: bytes, bitcode: Callable[[], bytes]) -> None:
        super().__init__(codegen, name)
        self._bitcode = bitcode
        self.enable_object_caching()
        self._set_compiled_object(code)
        self._finalize_final_module()

    def define(self, *names: str) -> None:
        self._codegen._engine._defined_symbols.update(names)

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = llvm.parse_bitcode(self._bitcode())
        return self._shared_module
