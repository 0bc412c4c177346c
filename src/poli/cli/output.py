"""Output of the commands: messages, results and progress.

A command prints messages with `say` and returns its results. `--quiet` and `--json` silence messages, and messages move to
stderr when standard output carries results or a file. Progress is shown on stderr: bars on a terminal, elsewhere lines.
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import asdict, dataclass, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Any, BinaryIO, TextIO, TypeVar

import rich
import typer
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.status import Status
from rich.text import Text

from poli.errors import InputError, printable

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Mode:
    stdout: TextIO  # the original stream
    quiet: bool  # no messages and no progress
    as_json: bool  # no messages


_mode: ContextVar[_Mode] = ContextVar("mode")


@contextmanager
def speaking(quiet: bool, as_json: bool) -> Iterator[None]:
    """Route messages inside the block according to `--quiet` and `--json`."""
    rich.reconfigure(stderr=True, quiet=quiet or not sys.stderr.isatty())  # also applies to `rich.progress.track`
    with ExitStack() as stack:
        mode = _Mode(sys.stdout, quiet, as_json)
        stack.enter_context(redirect_stdout(_nowhere() if quiet or as_json else sys.stdout))
        if quiet:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            os.environ["POLI_NOTICE"] = "0"  # also silences the line about compiling kernels
        stack.callback(_mode.reset, _mode.set(mode))
        yield


@cache
def _nowhere() -> TextIO:
    """A null stream. Never closed, since libraries imported meanwhile may keep a reference to it, as colorama does."""
    return open(os.devnull, "w", encoding="utf-8", errors="replace")  # file names may not be valid UTF-8


def say(line: object = "", warning: bool = False, error: bool = False, to_stderr: bool = False) -> None:
    """Print a message on one line; line feeds, which can only come from names, are escaped."""
    color = typer.colors.RED if error else typer.colors.YELLOW if warning else None
    typer.secho(printable(line), fg=color, err=to_stderr or error)


def answer(text: str) -> None:
    """Print the requested text, even with `--quiet`. With `--json` it is part of the results instead."""
    mode = _mode.get()
    if not mode.as_json:
        print(printable(text, lines=True), file=mode.stdout, flush=True)
        _make_way(mode)


def data_stream() -> BinaryIO:
    """Standard output as a binary stream, for the contents of a file."""
    mode = _mode.get()
    if mode.as_json:
        raise InputError("--json: standard output cannot carry both a file and the results; give OUT a name")
    if mode.stdout.isatty():
        raise InputError("standard output is a terminal and cannot show a binary file; redirect it (> FILE), or give OUT a name")
    _make_way(mode)
    return mode.stdout.buffer


def _make_way(mode: _Mode) -> None:
    if not mode.quiet and not mode.as_json:
        sys.stdout = sys.stderr  # `speaking` restores it


def reader_left() -> bool:
    """Whether the broken pipe is standard output, closed by its reader (such as `head`). If so, stop writing to it."""
    import select

    stdout = sys.stdout.fileno()
    if hasattr(select, "poll"):  # not on Windows
        pipe = select.poll()
        pipe.register(stdout, 0)  # reports a closed reader even with an empty event mask
        if not pipe.poll(0):
            return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), stdout)
    return True


def as_json(results: Any) -> str:
    """Return the results of a command as JSON."""
    return json.dumps(_plain(results), indent=2, allow_nan=False).replace("\x7f", "\\u007f")  # all else is printable ASCII


def _plain(value: Any) -> Any:
    """Convert to JSON types; non-finite numbers become null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif hasattr(value, "tolist"):  # numpy arrays and scalars, without importing numpy
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None  # NaN compares false
    return value if value is None or isinstance(value, int | str) else str(value)


def busy(doing: str) -> Status:
    """Show a spinner, for work of unknown duration."""
    return rich.get_console().status(Text(doing))


def let_go() -> None:
    """Flush the standard streams. Drop what a full disk or a closed stream rejects, or Python would fail again at exit."""
    failed: OSError | None = None
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError as error:
            failed = failed or error
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if failed is not None:
        raise failed


AGAIN = "\nstopping after this scan; again to stop at once\n"  # of `stop_requests`


# --- Progress: bars on a terminal; elsewhere a line on stderr now and then, for log files and batch systems.


PERIOD = 30.0  # seconds between lines; what ends sooner needs none


class Bars(Progress):
    """Bars on a terminal. Elsewhere, unless `--quiet`, a line at most every `PERIOD` seconds.

    A line follows an update of a task, so it comes later if a step takes longer than the period.
    """

    def __init__(self, title: str) -> None:
        count, name = TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}", markup=False)
        columns = (count, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), name)
        # Messages appear above the bars only if both are on a terminal: rich would also redirect those to a file.
        super().__init__(*columns, console=rich.get_console(), redirect_stdout=sys.stdout.isatty())
        mode = _mode.get(None)
        self._title, self._last = title, time.monotonic()
        self._lines = not sys.stderr.isatty() and not (mode is not None and mode.quiet)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Show the progress of a task: on terminals as a bar, elsewhere as a line from time to time."""
        super().update(task_id, **changes)
        if self._lines and time.monotonic() - self._last >= PERIOD:
            self._last = time.monotonic()
            say(line(self._title, self._tasks[task_id]), to_stderr=True)


def track(things: Iterable[_T], doing: str, total: int | None = None) -> Iterator[_T]:
    """Iterate and show the progress."""
    with Bars(doing) as bars:
        yield from bars.track(things, total, description=doing)


def line(title: str, task: Task) -> str:
    """Return the progress of a task in one line: count, share, time, time left if known, and its description."""
    count = f"{task.completed:.0f}/{task.total:.0f} ({task.percentage:.0f} %)" if task.total else f"{task.completed:.0f}"
    times = [] if task.elapsed is None else [f"{timedelta(seconds=round(task.elapsed))} elapsed"]
    if task.time_remaining is not None and not task.finished:
        times.append(f"about {timedelta(seconds=round(task.time_remaining))} left")
    return ", ".join(filter(None, [f"{title}: {count}", *times, task.description if task.description != title else ""]))
