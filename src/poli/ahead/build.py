"""`python -m poli.ahead.build`: compile what `poli.estimate` and `poli.pca` run, and write it beside this file.

The same sources and the same numba give the same files, whatever the machine.
"""

from __future__ import annotations

import os
import platform
import sys
import zlib
from hashlib import sha256
from importlib.metadata import version

import llvmlite.binding as llvm

from poli.ahead.building.bundling import bundle
from poli.ahead.building.compiling import compile_rehearsed
from poli.ahead.building.sources import sources_of
from poli.ahead.fingerprint import fingerprint
from poli.ahead.header import BITCODE, FOLDER, OBJECT, Header
from poli.ahead.object_code import LEVEL, generate
from poli.errors import PoliError


def main() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise PoliError(f"kernels are built under Linux on x86-64, not under {sys.platform} on {platform.machine()}")
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets decides the order of instructions: again, with it fixed
        os.execve(sys.executable, [sys.executable, "-m", "poli.ahead.build"], os.environ | {"PYTHONHASHSEED": "0"})
    kernels = compile_rehearsed(LEVEL)
    bitcode = bundle(kernels)
    code = generate(bitcode, llvm.get_process_triple(), LEVEL, "")
    contents = {BITCODE: zlib.compress(bitcode, 9), OBJECT: zlib.compress(code, 9)}
    for name, content in contents.items():
        (FOLDER / name).write_bytes(content)
    sources = sources_of(kernel.module for kernel in kernels)
    Header(
        kernels={kernel.name: kernel.layout for kernel in kernels},
        sources=sources,
        fingerprint=fingerprint(sources),
        digests={name: sha256(content).hexdigest() for name, content in contents.items()},
        llvm=llvm.llvm_version_info[0],
        numba=version("numba"),
    ).write()
    sizes = ", ".join(f"{name} {len(content) / 1000:.0f} kB" for name, content in contents.items())
    print(f"{len(kernels)} kernels of {len(sources)} files: {sizes}")


if __name__ == "__main__":
    main()
