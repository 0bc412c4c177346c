"""Distribute cases over worker processes; a worker killed by a case is replaced, and the case is bad."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from .cases import chosen_targets, keep, make_case

_BLOCK = 500
_ROOT = Path(__file__).parents[2]


@dataclass
class Tally:
    """Counts of the cases by outcome."""

    verdicts: Counter = field(default_factory=Counter)  # by target and verdict
    bad: list[tuple[int, str, str]] = field(default_factory=list)  # number, target, why
    slowest: tuple[float, int, str] = (0.0, -1, "")
    deaths: int = 0

    @property
    def cases(self) -> int:
        return sum(self.verdicts.values())

    def add(self, number: int, target: str, kind: str, why: str, seconds: float) -> None:
        self.verdicts[target, kind] += 1
        self.slowest = max(self.slowest, (seconds, number, target))
        if kind == "bad":
            self.bad.append((number, target, why))

    def table(self) -> str:
        names = sorted({target for target, _ in self.verdicts})
        rows = [f"{'':28}{'answer':>10}{'refused':>10}{'bad':>6}"]
        for name in names:
            answers, refusals, bad = (self.verdicts[name, kind] for kind in ("answer", "refused", "bad"))
            rows.append(f"{name:28}{answers:10}{refusals:10}{bad:6}")
        return "\n".join(rows)


def fuzz(
    cases: int,
    seed: int,
    targets: str = "",
    workers: int = 2,
    first: int = 0,
    out: Path | None = None,
    hours: float | None = None,
    watch: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Run cases `first` to `first + cases` of a seed, or as many as fit into `hours`. Bad inputs are kept in `out`."""
    tally, lock = Tally(), Lock()
    end = None if hours is None else time.monotonic() + 3600.0 * hours
    blocks = iter([(at, min(at + _BLOCK, first + cases)) for at in range(first, first + cases, _BLOCK)])
    chosen = chosen_targets(targets)

    def work() -> None:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            worker = _Worker(targets, seed, Path(folder))
            try:
                while True:
                    with lock:
                        block = next(blocks, None)
                    if block is None or (end is not None and time.monotonic() > end):
                        return
                    for verdict in worker.run(*block):
                        with lock:
                            tally.add(*verdict)
                            tally.deaths = tally.deaths + (verdict[3].startswith("died"))
                            if verdict[2] == "bad" and out is not None:
                                keep(make_case(chosen, seed, verdict[0]), out / f"{seed}-{verdict[0]}", verdict[3])
                    with lock:
                        watch(tally)
            finally:
                worker.close()

    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work) for _ in range(workers)]:
            done.result()
    return tally


class _Worker:
    def __init__(self, targets: str, seed: int, folder: Path) -> None:
        self._command = [sys.executable, "-m", "tests.fuzz.worker", targets, str(seed), str(folder)]
        self._folder = folder
        self._start()

    def run(self, first: int, last: int) -> Iterator[tuple[int, str, str, str, float]]:
        """The verdict of each case in a block."""
        while first < last:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(f"{first} {last}\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line == "done\n":
                    return
                number, target, kind, why, seconds = json.loads(line)
                yield number, target, kind, why, seconds
                first = number + 1
            self._process.wait()
            number = int((self._folder / "number").read_text())
            said = (self._folder / "said").read_text(errors="replace")[-3000:]
            yield number, "(died)", "bad", f"died: exit code {self._process.returncode}\n{said}", 0.0
            first = number + 1
            self._start()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        with (self._folder / "said").open("w") as said:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, cwd=_ROOT
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"a worker does not start: {(self._folder / 'said').read_text()[-3000:]}")
