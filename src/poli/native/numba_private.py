"""All that this package asks of numba beyond its public interface: where a dispatcher keeps what it compiled, and how compiled code
is taken out of one process and put into another.

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

    state: bytes  # what numba knows of it: a pickle, read by nobody but `rebuild`
    code: bytes  # an object file
    bitcode: bytes  # for kernels that call this one and are compiled later


class KernelCache(NullCache):
    """What a dispatcher asks before it compiles, and gives what it compiled."""

    def __init__(self, load: Callable[[tuple, Any], Any], save: Callable[[tuple, Any], None]) -> None:
        self._load, self._save = load, save

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._load(_types(sig), target_context)

    def save_overload(self, sig: Any, cres: Any) -> None:
        self._save(_types(sig), cres)


def use_cache(dispatcher: Any, cache: KernelCache) -> None:
    dispatcher._cache = cache


def _types(signature: Any) -> tuple:
    """Of the arguments: numba gives them alone, or as a signature with a return type."""
    return tuple(getattr(signature, "args", signature))


def reduce(result: Any) -> Parts | None:
    """A compiled overload as bytes, or None if it holds addresses of this process."""
    if result.objectmode or result.lifted or result.library.has_dynamic_globals:
        return None
    (name, _, (code, bitcode)), description, environment, signature, _, _, _, reload, environments = result._reduce()
    module = result.library._final_module
    names = [item.name for items in (module.functions, module.global_variables) for item in items if item.is_declaration]
    imports = [name for name in names if not name.startswith("llvm.")]
    if any(name.startswith(".numba.unresolved") for name in imports):  # a function that calls itself
        return None
    # Most environments are those of numba's own functions, compiled in and never asked for; to make them imports half of numba.
    text = str(module)
    used = [found for found in environments if text.count(found.env_name) > 1 and found is not environment]
    return Parts(dumps((name, description, environment, signature, reload, used, imports)), code, bitcode)


def rebuild(context: Any, state: bytes, code: bytes, bitcode: Callable[[], bytes]) -> Any:
    """The overload in this process, ready to be called, or None if numba does not offer what the code calls.

    Numba itself would first load all that its compiler knows (0.45 s) and parse the bitcode; neither is needed for a call.
    """
    rtsys.initialize(context)
    name, description, environment, signature, reload, environments, imports = loads(state)
    if any(llvm.address_of_symbol(symbol) is None for symbol in imports):  # LLVM would end the process
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
    """Of the arguments."""
    return tuple(loads(state)[3].args)


class _StoredLibrary(JITCodeLibrary):
    """Object code that was compiled before. Its bitcode is read once another kernel is linked with it, which is seldom."""

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
