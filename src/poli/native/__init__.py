"""Machine code of the kernels: compiled when the package is built or installed, and loaded at the first call.

Every kernel is numba's, called by numba's own dispatcher. What differs is where the dispatcher finds what was compiled before: in
`compiled/`, which the build hook fills (see `poli.building`); else in the user's cache; else numba compiles, one line on stderr
says so, and the result is kept in the user's cache. Code runs only if it was made of the sources that are here, by this numba, and
for a CPU that can do what this one can. `POLI_NATIVE=off` leaves the package's code alone, `POLI_NATIVE=x86-64-v3` chooses it.
"""

from poli.native.keeping import keep_compiled

__all__ = ["keep_compiled"]
