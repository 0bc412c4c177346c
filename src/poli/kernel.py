"""`@kernel`: a function that numba compiles, to run without the GIL. Its machine code comes from `native`, which keeps it."""

from collections.abc import Callable
from typing import Any

from numba import extending, njit

from poli.native import keep_compiled


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """`@kernel`, or `@kernel(inline="always")` with more of numba's options."""
    if function is None:
        return lambda function: kernel(function, **options)
    return keep_compiled(njit(nogil=True, **options)(function))


def intrinsic(function: Callable) -> Any:
    """`@intrinsic`: what kernels call and LLVM instructions are written for. Its arguments are not those that its callers give."""
    return extending.intrinsic(function)


def over_range(kernel: Callable, *args: Any) -> Callable[[int, int], None]:
    """A function of (begin, end) that calls `kernel`, for `threads.run_chunks`. `args` are all its other arguments, in order."""
    place = kernel.__code__.co_varnames.index("begin")
    before, after = args[:place], args[place:]
    return lambda begin, end: kernel(*before, begin, end, *after)
