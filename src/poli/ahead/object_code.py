"""Machine code of the kernels for this CPU: as shipped, from the cache of an earlier process, or generated from the bitcode."""

from __future__ import annotations

import sys
import zlib

import llvmlite.binding as llvm

from poli.ahead.cache import cached
from poli.ahead.header import BITCODE, OBJECT, Header

# The level of x86-64 that kernels are vectorised for and that the shipped object code is of. LLVM splits vectors that are too wide
# for a CPU, so the bitcode runs everywhere.
LEVEL = "x86-64-v3"
_LEVEL_FEATURES = ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "ssse3", "xsave")


def object_code(header: Header) -> bytes:
    if _runs_shipped_code():
        return zlib.decompress(header.content(OBJECT))
    if header.llvm > llvm.llvm_version_info[0]:
        raise RuntimeError(f"{BITCODE} is of LLVM {header.llvm}; version {llvm.llvm_version_info[0]} may not read it")
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    triple = llvm.get_process_triple()
    key = (header.fingerprint, header.digests[BITCODE], triple, cpu, features, llvm.llvm_version_info)
    return cached(repr(key), lambda: generate(zlib.decompress(header.content(BITCODE)), triple, cpu, features))


def generate(bitcode: bytes, triple: str, cpu: str, features: str) -> bytes:
    """The bitcode is optimised already; what is left is to choose instructions and registers."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Position independent and small, like a shared library's: what every linker knows how to place.
    options = {"cpu": cpu, "features": features, "opt": 3, "reloc": "pic", "codemodel": "small"}
    machine = llvm.Target.from_triple(triple).create_target_machine(**options)
    module = llvm.parse_bitcode(bitcode)
    module.triple, module.data_layout = triple, str(machine.target_data)
    return machine.emit_object(module)


def _runs_shipped_code() -> bool:
    if sys.platform != "linux" or not llvm.get_process_triple().startswith("x86_64"):
        return False
    features = llvm.get_host_cpu_features()
    return all(features.get(name, False) for name in _LEVEL_FEATURES)
