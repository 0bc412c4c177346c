"""Kill commands at random moments and restart them: no results lost, the same bytes in the end, no files left behind.

    python tests/kills.py --count 200        run by `make kills`; prints a table to standard output

A kill is `kill -9`, which a process cannot handle. Half of the kills are timed, anywhere between a command's first write and its
end; the other half happen just before one of its file operations, which covers moments that a timer would never hit, such as
between a rename and the cleanup. Every other run is killed twice. Commands run in forks of this process, which has loaded
everything, so that a trial takes no longer than the work itself.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "sqlite3.connect"}
KINDS = ("folder", "folder by two", "ros1", "sqlite3", "mcap", "odometry", "train")


# --- in the process to be killed


def watch_changes(folder: Path, at: int, told: Path) -> None:
    """Count the changes of this process to files below `folder`, write the count to `told`, and die before change number `at`."""
    seen, root = 0, str(folder)
    count = os.open(told, os.O_WRONLY | os.O_CREAT)

    def watch(event: str, arguments: tuple) -> None:
        nonlocal seen
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not (writes or event in CHANGES) or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        if os.path.abspath(os.fsdecode(arguments[0])).startswith(root):
            seen += 1
            os.pwrite(count, b"%d" % seen, 0)
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def run_here(words: list[str], place: Path, said: Path, at: int) -> NoReturn:
    """Run a command in this process and exit with it. It gets a new session, so that processes left behind can be detected."""
    code = 1
    try:
        os.setsid()
        os.chdir(place)
        stream = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(stream, number)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        watch_changes(place, at, said.with_suffix(".changes"))
        from poli.cli import main as poli

        poli(words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


# --- the commands that are killed


@dataclass
class Job:
    """A command, run in a separate folder `place`, and the results expected afterwards."""

    words: list[str]
    results: Callable[[Path], dict[str, bytes]]  # results in a place; the same however the command got there
    inputs: Path  # must not change
    kept: Callable[[Path, dict[str, bytes]], str] = lambda place, whole: ""  # what a killed run has lost, or ""
    first: float = 0.0  # seconds until the first write
    last: float = 0.0
    changes: int = 0
    whole: dict[str, bytes] = field(default_factory=dict)


def contents(folder: Path) -> dict[str, bytes]:
    found = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(path.relative_to(folder.parent)): path.read_bytes() for path in found}


def leftovers(place: Path) -> list[str]:
    """Temporary files, and folders of unfinished runs."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.name[0] == "." or path.suffix == ".partial")


def job_of(kind: str, home: Path, scans: int = 24) -> Job:
    import numpy as np

    from poli.cli import main as poli
    from poli.io.datasets import write_kitti
    from poli.scan import Scan
    from tiny_scans import room

    if kind.startswith("folder"):
        source = home / "kitti"
        write_kitti(source, "00", [Scan(room(2000, i).points) for i in range(scans)], np.tile(np.eye(4), (scans, 1, 1)))
        words = ["densify", str(source), "dense", "--voxel", "0", "--workers", "2" if kind.endswith("two") else "1"]
        return Job(words, lambda place: contents(place / "dense"), source)
    if kind in ("ros1", "sqlite3", "mcap"):
        from tiny_bags import write_bag

        source = home / ("in.bag" if kind == "ros1" else f"in_{kind}")
        write_bag(source, kind, clouds=scans, points=2000)
        out = "dense.bag" if kind == "ros1" else "dense"
        words = ["densify", str(source), out, "--voxel", "0", "--workers", "1"]
        return Job(words, lambda place: contents(place / out), source)
    if kind == "odometry":
        source = home / "drive"
        with suppress(SystemExit):
            poli(["simulate", str(source), "--scans", str(scans), "--quiet"])
        return Job(["odometry", str(source), "--model", "pca", "--map", "map.ply"], _poses, source, _whole_lines)
    from tiny_training import tiny

    source = tiny(home, 40)
    return Job(["train", str(source), "--out", "run"], _trained, source)


def _trained(place: Path) -> dict[str, bytes]:
    return {name: (place / "run" / name).read_bytes() for name in ("checkpoint.safetensors", "model.safetensors", "validation.csv")}


def _runs(place: Path) -> list[Path]:
    found = (path for path in place.glob("results/odometry/*/*") if not path.is_symlink())
    return sorted(found, key=lambda path: (len(path.name), path.name))


def _poses(place: Path) -> dict[str, bytes]:
    (latest,) = place.glob("results/odometry/*/latest")
    names = ("poses_tum.txt", "poses_kitti.txt", "truth_tum.txt", "truth_kitti.txt")
    return {"map.ply": (place / "map.ply").read_bytes()} | {name: (latest / name).read_bytes() for name in names}


def _whole_lines(place: Path, whole: dict[str, bytes]) -> str:
    """Check that a killed odometry run has written the beginning of the full output, in whole lines."""
    for run in _runs(place):
        for name in ("poses_tum.txt", "poses_kitti.txt"):
            text = (run / name).read_bytes() if (run / name).exists() else b""
            if not whole[name].startswith(text) or (text and not text.endswith(b"\n")):
                return f"{run.name}/{name} is no beginning of the whole"
    return ""


# --- killing


def _start(job: Job, place: Path, at: int = 0) -> tuple[int, Path]:
    """Start the command; returns its process id and the file of its output."""
    said = place.with_name(f"{place.name}.said")
    child = os.fork()
    if not child:
        run_here(job.words, place, said, at)
    return child, said


def _wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def measure(job: Job, place: Path) -> None:
    """Run undisturbed and record the time, the number of changes, and the results."""
    place.mkdir(parents=True)
    begin = time.perf_counter()
    child, said = _start(job, place)
    while not any(place.iterdir()) and time.perf_counter() - begin < 60:
        time.sleep(0.005)
    job.first = time.perf_counter() - begin
    if _wait(child):
        raise AssertionError(f"{job.words}: {said.read_text()}")
    job.last, job.whole = time.perf_counter() - begin, job.results(place)
    job.changes = int(said.with_suffix(".changes").read_text())


def kill_once(job: Job, place: Path, draw: random.Random, by_clock: bool) -> bool:
    """Kill the command once; whether it was still running."""
    child, _ = _start(job, place, 0 if by_clock else draw.randint(1, job.changes))
    if by_clock:
        time.sleep(draw.uniform(0.9 * job.first, job.last))
        os.kill(child, signal.SIGKILL)
    code = _wait(child)
    for _ in range(400):  # workers exit once they notice that their parent is gone
        try:
            os.killpg(child, 0)
        except ProcessLookupError:
            return code == -signal.SIGKILL
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    raise AssertionError("worker processes were left behind")


def trial(job: Job, place: Path, draw: random.Random, number: int) -> tuple[int, str]:
    """The number of kills, and the problem, if any."""
    place.mkdir(parents=True)
    killed = 0
    for _ in range(1 + number % 2):
        try:
            killed += kill_once(job, place, draw, by_clock=number % 4 < 2)
        except AssertionError as error:
            return killed, str(error)
        if lost := job.kept(place, job.whole):
            return killed, lost
    child, said = _start(job, place)
    if _wait(child):
        return killed, f"does not resume: {said.read_text().strip()[-300:]}"
    if job.results(place) != job.whole:
        return killed, "the bytes differ from those of an undisturbed run"
    if left := leftovers(place):
        return killed, f"left behind: {', '.join(left)}"
    return killed, ""


def warm_up(job: Job, place: Path) -> None:
    """Run the command once in this process, so that everything is compiled and loaded."""
    from poli.cli import main as poli

    place.mkdir()
    before = Path.cwd()
    os.chdir(place)
    with suppress(SystemExit):
        poli([*job.words, "--quiet"])
    os.chdir(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="trials over all kinds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    arguments = parser.parse_args()
    draw, bad = random.Random(arguments.seed), 0
    print(f"{'':<14}{'trials':>8}{'kills':>8}{'too late':>10}{'bad':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for row, kind in enumerate(arguments.kinds):
            home = Path(folder) / kind
            home.mkdir()
            job = job_of(kind, home)
            if kind != "train":  # threads of torch do not survive a fork
                warm_up(job, home / "warm")
            measure(job, home / "measured")
            before, counts = contents(job.inputs), Counter[str]()
            for number in range((arguments.count + row) // len(arguments.kinds)):
                killed, wrong = trial(job, home / f"trial{number}", draw, number)
                counts.update(trials=1, kills=killed, late=1 + number % 2 - killed, bad=bool(wrong))
                if wrong:
                    print(f"{kind} {number}: {wrong}", flush=True)
                shutil.rmtree(home / f"trial{number}")
                for file in home.glob(f"trial{number}.*"):
                    file.unlink()
            if contents(job.inputs) != before:
                counts["bad"] += 1
                print(f"{kind}: the input has changed")
            bad += counts["bad"]
            print(f"{kind:<14}{counts['trials']:>8}{counts['kills']:>8}{counts['late']:>10}{counts['bad']:>6}", flush=True)
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
