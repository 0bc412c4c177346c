"""What the processes of a build do (`compiling` starts them).

`rehearse N` calls list N of the rehearsal. With one cache it compiles the first time and loads the second, and then prints what it
loaded: the kernels that are called from Python. Those that only other kernels call are compiled into these.
`compile FOLDER I N` reads such a list and compiles every N-th of it, from the I-th on, for the CPU that numba is set to. That may
be one whose code cannot run here: nothing is called. The types are those that the rehearsal left in FOLDER."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from poli.building.collecting import collect
from poli.native.numba_private import Dispatcher, types_of


def main() -> None:
    task, *words = sys.argv[1:]
    if task == "rehearse":
        from poli.building.rehearsal import rehearse

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


if __name__ == "__main__":
    main()
