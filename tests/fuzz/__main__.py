"""The command line of the fuzzer."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .run import fuzz, kept, try_case


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description="Damaged inputs for everything that poli reads.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", default="", help="comma-separated words in the names of the targets; default: all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("fuzz_failures"), help="folder for bad inputs")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="run a kept bad input again")
    options = parser.parse_args()
    if options.replay:
        with TemporaryDirectory() as scratch:
            case = kept(options.replay)
            verdict = try_case(case, Path(scratch) / "files")
        print(f"{case.target.name}: {verdict.kind}\n{verdict.why}")
        return verdict.kind == "bad"
    tally = fuzz(options.cases, options.seed, options.targets, options.workers, options.out, report=True)
    print(tally.table())
    for number, target, why in tally.bad[:20]:
        print(f"\n--- {target}: python -m tests.fuzz --replay {options.out / f'{options.seed}-{number}'}\n{why[-1500:]}")
    return 1 if tally.bad else 0


if __name__ == "__main__":
    sys.exit(main())
