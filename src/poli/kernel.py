"""`@kernel`: compile a function with numba, to run without the GIL and to be cached on disk."""

from collections.abc import Callable
from typing import Any

from numba import extending, njit


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """`@kernel`, or `@kernel(inline="always")` with more of numba's options."""
    if function is None:
        return lambda function: kernel(function, **options)
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep a cache: a read-only installation without a home. Compile anew in every process
        return njit(nogil=True, **options)(function)


def intrinsic(function: Callable) -> Any:
    """`@intrinsic`: what kernels call and LLVM instructions are written for. Its arguments are not those that its callers give."""
    return extending.intrinsic(function)
