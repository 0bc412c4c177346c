"""Run the bombs one after the other and print verdict, time and peak memory of each."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .run import BOMBS, defuse, limit_memory


def main() -> int:
    names = sys.argv[1:] or list(BOMBS)
    limit_memory()
    print(f"| file | bytes | verdict | seconds | MB |\n|{'---|' * 5}")
    results = []
    for name in names:
        with TemporaryDirectory() as folder:
            found = defuse(name, Path(folder))
        results.append(found)
        print(f"| {name} | {found.size:,} | {found.kind} | {found.seconds:.2f} | {found.memory / 1e6:.0f} |", flush=True)
        if found.kind == "bad":
            print(found.why, file=sys.stderr)
    bad = sum(found.kind == "bad" for found in results)
    most, longest = max(found.memory for found in results), max(found.seconds for found in results)
    print(f"\n{len(results)} files, {bad} bad; at most {most / 1e6:.0f} MB and {longest:.1f} s")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
