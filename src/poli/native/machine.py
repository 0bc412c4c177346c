"""The target of compiled code (Python, numba and CPU), and whether it matches this process."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core import config as _config

config: Any = _config  # its attributes are created at import
HOST = "host"  # this CPU with all its features
# The levels of x86-64, best first, and the CPU features that they need, by their LLVM names.
_V3 = ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "ssse3", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3}
_BASELINES = {("darwin", "arm64"): "apple-m1"}  # a platform's oldest CPU; elsewhere `generic`
# Values of NUMBA_CPU_NAME with AVX-512 (LLVM reports features of the host only).
_WITH_AVX512 = {"x86-64-v4", "skylake-avx512", "cascadelake", "icelake-server", "sapphirerapids", "znver4", "znver5"}
LEVELS = (HOST, *_LEVELS, "apple-m1", "generic")  # in the order in which they are tried
# Settings of numba that affect the generated code.
_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "LLVM_REFPRUNE_PASS")


def levels_of_a_wheel() -> list[str]:
    """Return the levels for distribution: two of x86-64, or on other platforms the baseline."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return sorted(_LEVELS)
    return [_BASELINES.get((sys.platform, platform.machine()), "generic")]


def settings_of(level: str) -> dict[str, str]:
    """Return the environment variables that make numba compile for a level."""
    return {} if level == HOST else {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}


def runs(level: str) -> bool:
    """Whether this CPU can run the code of a level."""
    abilities = _abilities()
    return level == HOST or all(name in abilities for name in _LEVELS.get(level, ()))


@cache
def this_process() -> dict[str, str]:
    """Return the target that numba compiles for in this process."""
    features = config.CPU_FEATURES
    return _software() | {
        "cpu": config.CPU_NAME or llvm.get_host_cpu_name(),
        "features": ",".join(sorted(f"+{name}" for name in _abilities())) if features is None else features,
    }


def widest_vector() -> int:
    """Return the number of floats in a vector register of the CPU that numba compiles for in this process."""
    named = config.CPU_NAME and config.CPU_NAME != "host"
    features = this_process()["features"].split(",")
    wide = "+avx512f" in features or (named and config.CPU_NAME in _WITH_AVX512)
    return 16 if wide else 8


def obstacle(made_for: dict[str, str]) -> str | None:
    """Return why code for this target cannot run here, or None if it can."""
    here = this_process()
    for name, value in _software().items():
        if made_for.get(name) != value:
            return f"the compiled code is for {_WORDS[name]} {made_for.get(name)}, but this is {value}"
    if config.CPU_NAME or config.CPU_FEATURES is not None:
        if (made_for["cpu"], made_for["features"]) != (here["cpu"], here["features"]):
            return f"NUMBA_CPU_NAME is {here['cpu']}, but the compiled code is for {made_for['cpu']}"
        return None
    needed = _LEVELS.get(made_for["cpu"], ()) or [name[1:] for name in made_for["features"].split(",") if name]
    missing = [name for name in needed if name not in _abilities()]
    return f"the compiled code is for a CPU with {missing[0]}, which this one lacks" if missing else None


_WORDS = {"python": "Python", "numba": "numba", "llvmlite": "llvmlite", "platform": "the platform", "settings": "numba settings"}


def _software() -> dict[str, str]:
    return {
        "python": f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}",
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "platform": llvm.get_process_triple(),
        "settings": " ".join(f"{name}={getattr(config, name, None)}" for name in _SETTINGS),
    }


@cache
def _abilities() -> frozenset[str]:
    """Return the features of this CPU that LLVM may use; numba can be configured not to use AVX."""
    features = llvm.get_host_cpu_features()
    return frozenset(name for name, has in features.items() if has and (config.ENABLE_AVX or not name.startswith("avx")))


def wanted_level() -> str:
    """Return `POLI_NATIVE`: a level, `off`, or empty for the best level."""
    return os.environ.get("POLI_NATIVE", "").strip()
