"""The tasks of the build processes (`compiling` starts them).

`rehearse N` calls list N of the warm-up. With the same cache, the first run compiles and the second loads, and then prints what it
loaded: the kernels that are called from Python. Kernels that only other kernels call are compiled into these.
`compile FOLDER I N` reads such a list and compiles every N-th entry, from the I-th on, for the CPU that numba is set to. This may
be another CPU than this one: nothing is called. The types are those that the warm-up stored in FOLDER."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Set
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from poli.errors import PoliError
from poli.native.bundle import Bundle, Overload
from poli.native.numba_private import Dispatcher, types_of


def main() -> None:
    task, *words = sys.argv[1:]
    if task == "rehearse":
        from poli.building.warmup import rehearse

        rehearse(int(words[0]))
        loaded = sorted({(name, repr(tuple(types))) for name, kernel in _kernels() for types in kernel.stats.cache_hits})
        compiled = sorted({name for name, kernel in _kernels() if kernel.stats.cache_misses})
        json.dump({"loaded": loaded, "compiled": compiled}, sys.stdout)
        return
    wanted = {(kernel, types) for kernel, types in json.load(sys.stdin)}
    for overload in collect(Path(words[0]), wanted)[1][int(words[1]) :: int(words[2])]:
        module, _, name = overload.kernel.rpartition(".")
        getattr(import_module(module), name).compile(types_of(overload.parts.state))


def _kernels() -> Iterator[tuple[str, Any]]:
    for module, content in sorted(sys.modules.items()):
        for name, value in list(vars(content).items()) if module.startswith("poli.") else ():
            if isinstance(value, Dispatcher) and value.__module__ == module:
                yield f"{module}.{name}", value


def collect(folder: Path, wanted: Set[tuple[str, str]]) -> tuple[dict[str, str], list[Overload]]:
    """Return the target of the code in a cache folder, and its overloads for these kernels and types, in order."""
    made_for: dict[str, str] = {}
    found: dict[tuple[str, str], Overload] = {}
    for path in sorted((folder / "poli" / "kernels").glob("*.poli")):
        bundle = Bundle(partial(path.open, "rb"))
        made_for = bundle.made_for
        found |= {key: bundle.overload(*key) for key in bundle.overloads() if key in wanted}
    missing = wanted - found.keys()
    if missing or not found:
        raise PoliError(f"{len(missing)} kernels were not compiled, including {min(missing, default='all')}")
    return made_for, [found[key] for key in sorted(found)]


if __name__ == "__main__":
    main()
