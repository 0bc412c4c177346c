"""What a user may want to know: is there compiled code, for which CPU, and is it of the sources that are here?"""

from __future__ import annotations

from dataclasses import dataclass

from poli.native.package import chosen
from poli.native.sources import changed

REMEDY = "`python -m poli.building` compiles them all"


@dataclass(frozen=True)
class CompiledCode:
    words: str
    is_ready: bool  # all of it is used


def compiled_code() -> CompiledCode:
    code = chosen()
    if code.bundle is None:
        return CompiledCode(f"numba compiles each at its first call, since {code.why_not}; {REMEDY}", False)
    edited = {
        path for path in (changed(code.bundle.sources(*overload)) for overload in code.bundle.overloads()) if path is not None
    }
    stale = sum(changed(code.bundle.sources(*overload)) is not None for overload in code.bundle.overloads())
    words = f"{len(code) - stale} compiled for {code.level}"
    if code.level == "host":
        words += f" ({code.bundle.made_for['cpu']})"
    if stale:
        words += f"; {stale} by numba at their first call, since {', '.join(sorted(edited))} changed; {REMEDY}"
    return CompiledCode(words, not stale)
