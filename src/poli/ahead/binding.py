"""Call a kernel on ranges of its work, compiled ahead where that is at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poli.ahead.loading import native_kernels


def bind(kernel: Callable, *args: Any) -> Callable[[int, int], None]:
    """A function of (begin, end) that calls `kernel`. `args` are all others of its arguments, in order; they are looked at once,
    not for every range. A kernel's own name stays that of numba's dispatcher: other kernels call it by that."""
    python = getattr(kernel, "py_func", None)
    place = (python or kernel).__code__.co_varnames.index("begin")
    before, after = args[:place], args[place:]

    def dispatch(begin: int, end: int) -> None:
        kernel(*before, begin, end, *after)

    if python is None:  # NUMBA_DISABLE_JIT: somebody wants to see Python run
        return dispatch
    native = native_kernels().get(f"{python.__module__}.{python.__name__}")
    slots = native.layout.slots(args) if native else None
    if native is None or slots is None:
        return dispatch
    function = native.function

    def run(begin: int, end: int) -> None:
        if function(slots, begin, end):
            dispatch(begin, end)  # it gave up, as when memory is short; the dispatcher knows what to raise

    return run
