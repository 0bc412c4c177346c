"""A process that runs cases until it receives a stop, or until a case ends it.

Blocks of cases arrive on standard input, one `first last` per line; verdicts go to standard output, one line of JSON each. The
number of the current case is kept in a file, so that the parent can read it if this process dies.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from .cases import chosen_targets, make_case, seeds_of
from .trial import try_case

_MEMORY = 1 << 30  # bytes of address space, in addition to those in use once everything is loaded


def main() -> None:
    words, seed, scratch = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    targets = chosen_targets(words)
    for target in targets:
        seeds_of(target.name)
    for number in range(len(targets)):  # compiles and loads everything that cases need
        try_case(make_case(targets, seed + 10**6, number), scratch / "files")
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output printed by libraries goes elsewhere
    print("ready", file=out)
    progress = os.open(scratch / "number", os.O_RDWR | os.O_CREAT)
    for line in sys.stdin:
        first, last = map(int, line.split())
        for number in range(first, last):
            os.pwrite(progress, f"{number:20d}".encode(), 0)
            case = make_case(targets, seed, number)
            verdict = try_case(case, scratch / "files")
            print(json.dumps([number, case.target.name, *verdict]), file=out)
        print("done", file=out)


if __name__ == "__main__":
    main()
