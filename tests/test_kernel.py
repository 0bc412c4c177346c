import numba
import numpy as np

import poli.kernel


def test_kernels_compile_even_where_no_cache_can_be_kept(monkeypatch):
    def without_cache(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(poli.kernel, "njit", without_cache)

    @poli.kernel.kernel
    def total(values):
        out = 0.0
        for v in values:
            out += v
        return out

    assert total(np.arange(4.0)) == 6.0
    assert total.targetoptions["nogil"]
