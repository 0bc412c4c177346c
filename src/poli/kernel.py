"""`@kernel`: compile a function with numba, without the GIL. `poli.native` stores the machine code."""

from collections.abc import Callable
from typing import Any

from numba import extending, njit

from poli.native import keep_compiled


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """Decorate a function as `@kernel`, or as `@kernel(inline="always")` with numba options."""
    if function is None:
        return lambda function: kernel(function, **options)
    return keep_compiled(njit(nogil=True, **options)(function))


def intrinsic(function: Callable) -> Any:
    """Decorate a function that emits LLVM IR for kernels. Its arguments are numba types, not the callers' values."""
    return extending.intrinsic(function)


def over_range(kernel: Callable, *args: Any) -> Callable[[int, int], None]:
    """Return a function of (begin, end) that calls `kernel`, for `threads.run_chunks`. `args` are its other arguments, in order."""
    place = kernel.__code__.co_varnames.index("begin")
    before, after = args[:place], args[place:]
    return lambda begin, end: kernel(*before, begin, end, *after)
