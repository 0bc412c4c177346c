"""A process that runs cases until it is told to stop, or until one of them ends it.

Blocks of cases come on standard input, `first last` a line; verdicts go to standard output, a line of JSON each. The number of the
case under way stands in a file, for whoever finds this process dead.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from .cases import chosen_targets, make_case, seeds_of
from .trial import try_case

_MEMORY = 1 << 30  # bytes of address space beside those that are taken once everything is loaded


def main() -> None:
    words, seed, scratch = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    targets = chosen_targets(words)
    for target in targets:
        seeds_of(target.name)
    for number in range(len(targets)):  # compiles and loads whatever cases need
        try_case(make_case(targets, seed + 10**6, number), scratch / "files")
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever libraries print goes elsewhere
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
