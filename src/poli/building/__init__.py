"""How the kernels are compiled when the package is built or installed: `python -m poli.building`.

Everything that users reach is rehearsed on small inputs, so numba sees the types that the library really passes; what it compiles
for them is written as one file a level of CPU (see `poli.native`). `hatch_build.py` runs this, as does whoever changed a kernel.
"""
