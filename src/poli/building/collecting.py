"""What the processes of a build have left in a cache of their own."""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from pathlib import Path

from poli.errors import PoliError
from poli.native.bundle import Bundle, Overload


def collect(folder: Path, wanted: Set[tuple[str, str]]) -> tuple[dict[str, str], list[Overload]]:
    """Whom the code is for, and those of these kernels and types that are there, in order."""
    made_for: dict[str, str] = {}
    found: dict[tuple[str, str], Overload] = {}
    for path in sorted((folder / "poli" / "kernels").glob("*.poli")):
        bundle = Bundle(partial(path.open, "rb"))
        made_for = bundle.made_for
        found |= {key: bundle.overload(*key) for key in bundle.overloads() if key in wanted}
    missing = wanted - found.keys()
    if missing or not found:
        raise PoliError(f"{len(missing)} kernels were not compiled, {min(missing, default='all')} among them")
    return made_for, [found[key] for key in sorted(found)]
