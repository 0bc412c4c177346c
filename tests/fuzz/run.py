"""Numbered cases, and the processes that run them. The same seed and number give the same input."""

from __future__ import annotations

import faulthandler
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from poli.errors import PoliError

from . import bag_bombs, bags, models, point_bombs, point_files, runs, sequences, table_bombs
from .damage import Target, Tree, tree_of, write_tree

TARGETS: tuple[Target, ...] = (
    *point_files.TARGETS, *sequences.TARGETS, *bags.TARGETS, *models.TARGETS, *runs.TARGETS,
)  # fmt: skip
BOMBS = {**point_bombs.BOMBS, **table_bombs.BOMBS, **bag_bombs.BOMBS}
SECONDS = 30.0  # limit per case; reading a .laz file gives up after 10 s by itself
_NOTE = "why.txt"
_BLOCK = 5000  # cases per process
_MEMORY = 1 << 30  # bytes of address space, in addition to those in use once everything is loaded


@dataclass(frozen=True)
class Case:
    target: Target
    tree: Tree


class Verdict(NamedTuple):
    kind: str  # "answer", "refused" or "bad"
    why: str = ""


def _bomb(name: str) -> Target:
    """A hostile file, which is read as it is."""
    make, read = BOMBS[name]
    return Target(f"bomb {name}", lambda _: [{name: make()}], lambda folder: read(folder / name), lambda tree, rng, others: tree)


def chosen_targets(words: str) -> list[Target]:
    """Targets whose names contain one of the comma-separated words, each repeated according to its share; "bombs": all bombs."""
    if words == "bombs":
        return [_bomb(name) for name in BOMBS]
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    found = [target for target in TARGETS if not wanted or any(word in target.name for word in wanted)]
    if not found:
        raise SystemExit(f"no target has a name with {words!r}; there are {', '.join(target.name for target in TARGETS)}")
    return [target for target in found for _ in range(target.share)]


def _target_called(name: str) -> Target:
    if name.startswith("bomb "):
        return _bomb(name.removeprefix("bomb "))
    return next(target for target in TARGETS if target.name == name)


@cache
def _seeds_of(name: str) -> list[Tree]:
    with TemporaryDirectory() as folder:
        return _target_called(name).seeds(Path(folder))


def make_case(targets: list[Target], seed: int, number: int) -> Case:
    target = targets[number % len(targets)]
    rng = np.random.default_rng([seed, number])
    trees = _seeds_of(target.name)
    tree = trees[int(rng.integers(len(trees)))]
    others = _seeds_of(targets[int(rng.integers(len(targets)))].name) if rng.random() < 0.2 else trees
    return Case(target, target.damage(tree, rng, others))


def keep(case: Case, folder: Path, why: str) -> None:
    """Keep the input, the name of its target and the outcome in `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "input").mkdir(parents=True)
    write_tree(case.tree, folder / "input")
    (folder / _NOTE).write_text(f"{case.target.name}\n{why}\n", encoding="utf-8", errors="backslashreplace")


def kept(folder: Path) -> Case:
    name = (folder / _NOTE).read_text(encoding="utf-8").splitlines()[0]
    return Case(_target_called(name), tree_of(folder / "input"))


def try_case(case: Case, scratch: Path, seconds: float = SECONDS) -> Verdict:
    """Run a case in `scratch`, which is emptied first, and judge it. A case that hangs ends the process."""
    shutil.rmtree(scratch, ignore_errors=True)
    folder = scratch / "case"
    folder.mkdir(parents=True)
    try:
        write_tree(case.tree, folder)
    except (OSError, ValueError):  # names that are impossible in a file system
        return Verdict("refused", "no such file can be")
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            case.target.read(folder)
        kind, why = "answer", ""
    except PoliError as error:
        kind, why = "refused", str(error)
        if case.target.named and next(iter(case.tree), "") not in why:
            kind, why = "bad", f"the error does not name the file: {error}"
    except BaseException as error:
        kind, why = "bad", "".join(traceback.format_exception(error))
    finally:
        faulthandler.cancel_dump_traceback_later()
    return Verdict(kind, why)


# --- many cases


@dataclass
class Tally:
    """Counts of the cases by outcome."""

    verdicts: Counter = field(default_factory=Counter)  # by target and verdict
    bad: list[tuple[int, str, str]] = field(default_factory=list)  # number, target, why

    @property
    def cases(self) -> int:
        return sum(self.verdicts.values())

    def table(self) -> str:
        rows = [f"{'':28}{'answer':>10}{'refused':>10}{'bad':>6}"]
        for name in sorted({target for target, _ in self.verdicts}):
            answers, refusals, bad = (self.verdicts[name, kind] for kind in ("answer", "refused", "bad"))
            rows.append(f"{name:28}{answers:10}{refusals:10}{bad:6}")
        return "\n".join(rows)


def fuzz(cases: int, seed: int, targets: str = "", workers: int = 2, out: Path | None = None, report: bool = False) -> Tally:
    """Run the first cases of a seed. Bad inputs are kept in `out`."""
    tally, chosen = Tally(), chosen_targets(targets)

    def work(block: int) -> list[tuple[int, Verdict]]:
        return list(_block(targets, seed, block, min(block + _BLOCK, cases)))

    with ThreadPoolExecutor(workers) as pool:
        for verdicts in pool.map(work, range(0, cases, _BLOCK)):
            for number, verdict in verdicts:
                name = chosen[number % len(chosen)].name
                tally.verdicts[name, verdict.kind] += 1
                if verdict.kind == "bad":
                    tally.bad.append((number, name, verdict.why))
                if verdict.kind == "bad" and out is not None:
                    keep(make_case(chosen, seed, number), out / f"{seed}-{number}", verdict.why)
            if report:
                print(f"{tally.cases} cases, {len(tally.bad)} bad", flush=True)
    return tally


def _block(targets: str, seed: int, first: int, last: int) -> Iterator[tuple[int, Verdict]]:
    """Run cases in a process. A case that kills it is bad, and the next process goes on after it."""
    while first < last:
        command = [sys.executable, "-m", "tests.fuzz.run", targets, str(seed), str(first), str(last)]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=Path(__file__).parents[2], check=False)
        lines = ran.stdout.splitlines()
        if lines[:1] != ["ready"]:
            raise RuntimeError(f"a worker does not start: {ran.stderr[-3000:]}")
        for line in lines[1:]:
            yield first, Verdict(*json.loads(line))
            first += 1
        if first < last:
            yield first, Verdict("bad", f"died: exit code {ran.returncode}\n{ran.stderr[-3000:]}")
            first += 1


def main() -> None:
    """Run a block of cases, and print a line of JSON for each."""
    words, seed, first, last = sys.argv[1], *map(int, sys.argv[2:])
    targets = chosen_targets(words)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output printed by libraries goes elsewhere
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        for number in range(len(targets)):  # compiles and loads everything that cases need
            try_case(make_case(targets, seed + 10**6, number), Path(folder) / "files", 20 * SECONDS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
        print("ready", file=out)
        for number in range(first, last):
            print(json.dumps(try_case(make_case(targets, seed, number), Path(folder) / "files")), file=out)


if __name__ == "__main__":
    main()
