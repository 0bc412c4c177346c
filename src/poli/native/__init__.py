"""Machine code of the kernels: compiled when the package is built or installed, and loaded at the first call.

Kernels are compiled by numba and called through numba's dispatcher. The dispatcher looks for compiled code in `compiled/`, which
the build hook fills (see `poli.building`), then in the user's cache. Otherwise numba compiles, one line on stderr says so, and the
result is kept in the user's cache. Code runs only if it was compiled from the present sources, by this version of numba, and for a
CPU whose features this one has. `POLI_NATIVE=off` disables the code in `compiled/`, `POLI_NATIVE=x86-64-v3` selects a level.
"""

from poli.native.keeping import keep_compiled

__all__ = ["keep_compiled"]
