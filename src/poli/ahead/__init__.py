"""Kernels compiled ahead of time: what numba would need half a minute for on a new machine is in the package.

`bind` is all that the rest of the library sees. `build` writes three files beside this one, `make kernels`: optimised LLVM bitcode,
from which code for any CPU is generated in seconds; object code for the most common one, which is ready to run; and a header that
says what they hold and which sources they were made of. If anything is amiss, or `POLI_NO_AHEAD` is set, numba compiles as ever.
"""

from poli.ahead.binding import bind

__all__ = ["bind"]
