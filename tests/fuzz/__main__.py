"""The command line of the fuzzer."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from .run import TARGETS, Tally, fuzz, kept, try_case


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description="Damaged inputs for everything that poli reads.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--hours", type=float, help="stop after this time, even if cases are left")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to continue an earlier run")
    parser.add_argument("--targets", default="", help="comma-separated words in the names of the targets; default: all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("fuzz_failures"), help="folder for bad inputs")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="run a kept bad input again")
    parser.add_argument("--list", action="store_true", help="list the targets")
    options = parser.parse_args()
    if options.list:
        print("\n".join(target.name for target in TARGETS))
        return 0
    if options.replay:
        return _replay(options.replay)
    start = time.monotonic()

    def watch(tally: Tally) -> None:
        rate = tally.cases / (time.monotonic() - start)
        print(f"{options.first + tally.cases} cases, {len(tally.bad)} bad, {rate:.0f} per second", flush=True)

    tally = fuzz(options.cases, options.seed, options.targets, options.workers, options.first, options.out, options.hours, watch)
    print(tally.table())
    seconds, number, target = tally.slowest
    print(f"{tally.cases} cases, {len(tally.bad)} bad")
    print(f"slowest: {seconds:.1f} s, case {number}, {target}")
    for number, target, why in tally.bad[:20]:
        print(f"\n--- {target}: python -m tests.fuzz --replay {options.out / f'{options.seed}-{number}'}\n{why[-1500:]}")
    return 1 if tally.bad else 0


def _replay(folder: Path) -> int:
    with TemporaryDirectory() as scratch:
        case = kept(folder)
        verdict = try_case(case, Path(scratch) / "files")
    print(f"{case.target.name}: {verdict.kind} after {verdict.seconds:.1f} s\n{verdict.why}")
    return verdict.kind == "bad"


if __name__ == "__main__":
    sys.exit(main())
