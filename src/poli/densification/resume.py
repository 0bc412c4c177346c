"""Runs over many scans, in one process or several, which resume where they were stopped.

A run works in the folder OUT.partial, next to its output:

    run.json        the input, the options and the model; only a run with the same description resumes
    new             the output so far. The finished scans of a dataset are kept; a bag is written from the beginning each time
    00000012.part   a finished cloud of a bag

One process at a time uses the folder. When `new` is complete, it is moved to OUT, and the folder is removed. A scan depends only on
its input and the description, so the output has the same bytes, however often the run was stopped.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import poli
from poli.configs import DensifyConfig
from poli.errors import FormatError, PoliError
from poli.estimation.estimate import load_model, shipped_models
from poli.io.atomic import atomic_path, refuse_overwriting, sole_user, writing
from poli.io.tables import read_json, write_json
from poli.threads import start_worker

_MOST_WAITING = 64 << 20  # bytes of other messages that wait for an earlier scan
_CHECKSUM = 4  # bytes


class Densified(NamedTuple):
    """The result of one scan."""

    points_in: int
    points_out: int
    why: str = ""  # reason if no points were added
    raw: bytes = b""  # the new message, in a bag


@dataclass
class Tally:
    """Progress of a run. Points are those of the scans it has computed itself."""

    scans: int = 0
    kept: int = 0  # of these, finished by an earlier run
    points_in: int = 0
    points_out: int = 0
    unchanged: int = 0  # scans to which no points were added
    why: str = ""  # reason of the first one

    def add(self, scan: Densified | None) -> None:
        """Count a scan; None: one that an earlier run has finished."""
        self.scans += 1
        self.kept += scan is None
        if scan is not None:
            self.points_in += scan.points_in
            self.points_out += scan.points_out
            self.unchanged += bool(scan.why)
            self.why = self.why or scan.why


class Engine(NamedTuple):
    """Runs jobs. At most `window` of them are unfinished at a time, so that memory stays bounded."""

    window: int
    submit: Callable[[Callable[[Any], Any], Any], Future]  # of a function and its argument


@contextmanager
def engine(workers: int = 1) -> Iterator[Engine]:
    """Yield an engine: this process with all its threads for one worker, else one single-threaded process per worker."""
    if workers == 1:
        yield Engine(1, _do_now)
        return
    # Spawned, not forked: threads and compiled kernels do not survive a fork.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker)
    try:
        yield Engine(2 * workers, pool.submit)
    except BrokenExecutor:
        raise PoliError("a worker died, possibly out of memory; retry with fewer workers (finished scans are kept)") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _do_now(work: Callable[[Any], Any], job: Any) -> Future:
    future: Future = Future()
    future.set_result(work(job))
    return future


class Step(NamedTuple):
    """A scan, or something else that has its place among the scans, such as another message of a bag."""

    job: Any = None  # of a scan to be computed
    kept: bool = False  # a scan that an earlier run has finished
    finish: Callable[[Densified | None], None] = lambda found: None  # called in the order of the steps
    size: int = 0  # bytes in memory until then


def run_steps(
    out: Path,
    about: dict[str, Any],  # description of the run
    steps: Callable[[Path], Iterable[Step | None]],  # of the path to write to; at a None, all steps before it are finished
    work: Callable[[Any], Densified],
    engine: Engine,
    overwrite: bool = False,
    resumable: bool = True,
) -> Generator[Tally, None, None]:
    """Compute all scans in order, and yield the progress after each one. If not `resumable`, a run that fails leaves nothing."""
    if not out.parent.is_dir():
        raise FormatError(f"{out}: the folder {out.parent} does not exist; create it first")
    folder, tally = out.with_name(f"{out.name}.partial"), Tally()
    new = folder / "new"
    with writing(out, folder):
        folder.mkdir(exist_ok=True)
        with sole_user(folder, f"{out}: another run is writing it; wait for that run, or give another name"):
            before = read_run(folder / "run.json")
            if before is not None and before != about and not overwrite:
                raise other_settings(folder, before, about)
            if before != about:
                for entry in folder.iterdir():
                    remove(entry)
                write_json(folder / "run.json", about)
            try:
                for tally in _in_order(steps(new), work, engine):
                    yield tally
            except BaseException:
                if not resumable or (before != about and not tally.scans):  # nothing to resume
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            if out.is_dir():  # unlike files, folders cannot be replaced atomically
                out.rename(folder / "old")
            new.replace(out)
            remove(folder)


def _in_order(steps: Iterable[Step | None], work: Callable[[Any], Densified], engine: Engine) -> Iterator[Tally]:
    """Submit scans ahead of the others' results, within limits, and finish all steps in order."""
    tally, running, held = Tally(), 0, 0
    waiting: deque[tuple[Step, Any]] = deque()
    for step in chain(steps, [None]):
        if step is not None:
            future = None if step.job is None else engine.submit(work, step.job)
            waiting.append((step, future))
            running += future is not None
            held += step.size
        while waiting:
            first, future = waiting[0]
            ready = future is None or future.done() or running >= engine.window or held > _MOST_WAITING
            if step is not None and not ready:
                break
            waiting.popleft()
            found = None if future is None else future.result()
            running -= future is not None
            held -= first.size
            first.finish(found)
            if first.kept or found is not None:
                tally.add(found)
                yield tally


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# --- the description of a run


def describe_run(source: Path, config: DensifyConfig, **more: Any) -> dict[str, Any]:
    """Return the description of a run. Loads the model, so that errors occur before anything is written."""
    if config.model != "pca":
        load_model(config.model)
        if config.model not in shipped_models():
            more["model_sha256"] = sha256(Path(config.model).read_bytes()).hexdigest()
    if config.calibration is not None:
        more["calibration"] = sha256(repr(config.calibration).encode()).hexdigest()
    options = asdict(replace(config, calibration=None))
    return {"poli": poli.__version__, "input": str(source.resolve()), **options, **more}


def read_run(path: Path) -> dict[str, Any] | None:
    """Return the stored description of a run, {} if it is damaged, or None if there is none."""
    try:
        found = read_json(path)
    except FileNotFoundError:
        return None
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}


def other_settings(path: Path, before: dict[str, Any], now: dict[str, Any]) -> FormatError:
    """Return the error that names the settings in which an earlier run differs."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    return FormatError(
        f"{path}: was written with other settings ({', '.join(names) or 'its format'}); remove it, give another name, "
        "or replace it with --overwrite"
    )


def check_apart(source: Path, out: Path) -> None:
    """Raise if the input and the output are the same, or inside each other."""
    refuse_overwriting(out, source)
    here, there = source.resolve(), out.resolve()
    if here in there.parents or there in here.parents:
        raise FormatError(f"{out}: input and output are inside each other; choose an output outside the input")


# --- finished clouds of a bag


def read_part(path: Path) -> bytes | None:
    """Return a finished message, or None if it is missing or damaged: after a power cut, a file may be empty."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    raw = data[_CHECKSUM:]
    return raw if data[:_CHECKSUM] == crc32(raw).to_bytes(_CHECKSUM) else None


def write_part(path: Path, raw: bytes) -> None:
    """Store a finished message with its checksum."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(crc32(raw).to_bytes(_CHECKSUM))
        file.write(raw)
