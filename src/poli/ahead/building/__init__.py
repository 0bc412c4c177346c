"""How kernels are compiled ahead: what `build` is made of. Only developers need it."""
