"""Compile the kernels when the package is built or installed: `python -m poli.building`.

A warm-up calls everything that users can reach on small inputs, so numba sees the types that the library really passes. The
compiled code is written as one file per CPU level (see `poli.native`). `hatch_build.py` runs this; rerun it after a kernel change.
"""
