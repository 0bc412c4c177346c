"""The compiled code shipped with the package: one file per level in `compiled/`; the best one that runs here is used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from poli.native.bundle import Bundle
from poli.native.machine import LEVELS, obstacle, wanted_level
from poli.native.sources import PACKAGE, changed

COMPILED = PACKAGE / "native" / "compiled"
ENDING = ".poli"
OFF = "off"
REMEDY = "`python -m poli.building` compiles them all"


@dataclass(frozen=True)
class Chosen:
    """The file of compiled code in use, or why there is none."""

    level: str | None  # of the file in use, if any
    bundle: Bundle | None
    why_not: str  # why no file is used

    def __len__(self) -> int:
        return len(self.bundle) if self.bundle else 0


@cache
def chosen() -> Chosen:
    """Choose the file to use, once per process."""
    wanted = wanted_level()
    if wanted == OFF:
        return Chosen(None, None, "POLI_NATIVE is off")
    reasons = []
    for level in (wanted,) if wanted else LEVELS:
        path = COMPILED / f"{level}{ENDING}"
        if not path.is_file():
            continue
        try:
            bundle = Bundle(partial(path.open, "rb"))
            reason = obstacle(bundle.made_for)
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"{path} cannot be read: {error}"
        if reason is None:
            return Chosen(level, bundle, "")
        reasons.append(reason)
    nothing = f"no code for {wanted} was compiled" if wanted else "nothing was compiled when poli was installed"
    return Chosen(None, None, reasons[0] if reasons else nothing)


def find(kernel: str, types: str) -> tuple[Bundle | None, str]:
    """Return the file with this overload, or None and the reason."""
    found = chosen()
    if found.bundle is None:
        return None, found.why_not
    if not found.bundle.holds(kernel, types):
        return None, f"{kernel} was not compiled for these argument types"
    edited = changed(found.bundle.sources(kernel, types))
    if edited:
        return None, f"{edited} has changed since the kernels were compiled"
    return found.bundle, ""


# --- for `poli version`


@dataclass(frozen=True)
class CompiledCode:
    """A summary of the compiled code for users."""

    words: str
    is_ready: bool  # all of it is used


def compiled_code() -> CompiledCode:
    """Summarize which kernels are compiled."""
    code = chosen()
    if code.bundle is None:
        return CompiledCode(f"numba compiles each at its first call, because {code.why_not}; {REMEDY}", False)
    edited = {
        path for path in (changed(code.bundle.sources(*overload)) for overload in code.bundle.overloads()) if path is not None
    }
    stale = sum(changed(code.bundle.sources(*overload)) is not None for overload in code.bundle.overloads())
    words = f"{len(code) - stale} compiled for {code.level}"
    if code.level == "host":
        words += f" ({code.bundle.made_for['cpu']})"
    if stale:
        words += f"; {stale} by numba at their first call, because {', '.join(sorted(edited))} changed; {REMEDY}"
    return CompiledCode(words, not stale)
