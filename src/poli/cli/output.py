"""Where a command's words go: lines for people, the answer itself, and progress.

A verb says what it has to say with `say` and returns its results. Lines are for people: `--quiet` and `--json` silence them,
and they make way to stderr once standard output carries an answer or a file. Progress is on stderr, and only if somebody watches.

No verb writes to the terminal in any other way. Much of what is said came with the data, names above all, and here is the one place
where everything that a terminal would act on is taken out of it.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypeVar

import typer

from poli.errors import InputError
from poli.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Mode:
    stdout: TextIO  # as the user gave it
    silent: bool  # lines for people go nowhere
    as_json: bool


_mode: ContextVar[_Mode] = ContextVar("mode")


@contextmanager
def speaking(quiet: bool, as_json: bool) -> Iterator[None]:
    """What is said inside goes where these two want it."""
    import rich

    rich.reconfigure(stderr=True, quiet=quiet or not sys.stderr.isatty())  # also for every bar of `rich.progress.track`
    with ExitStack() as stack:
        mode = _Mode(sys.stdout, quiet or as_json, as_json)
        stack.enter_context(redirect_stdout(_nowhere() if mode.silent else sys.stdout))
        if quiet:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            os.environ["POLI_NATIVE_NOTICE"] = "0"  # nor that kernels are being compiled
        stack.callback(_mode.reset, _mode.set(mode))
        yield


@cache
def _nowhere() -> TextIO:
    """Never closed: libraries that are loaded meanwhile may hold on to what they find as standard output, as colorama does."""
    return open(os.devnull, "w", encoding="utf-8", errors="replace")  # names of files may be no UTF-8


def say(line: object = "", warning: bool = False, error: bool = False, to_stderr: bool = False) -> None:
    """One line for people. Line feeds in it are of some name, and shown as such."""
    color = typer.colors.RED if error else typer.colors.YELLOW if warning else None
    typer.secho(printable(line), fg=color, err=to_stderr or error)


def answer(text: str) -> None:
    """Print what was asked for, with `--quiet` too. With `--json` it is among the results."""
    mode = _mode.get()
    if not mode.as_json:
        print(printable(text, lines=True), file=mode.stdout, flush=True)
        _make_way(mode)


def data_stream() -> BinaryIO:
    """Standard output, for the bytes of a file."""
    mode = _mode.get()
    if mode.as_json:
        raise InputError("--json: standard output cannot carry both a file and the results; give OUT a name")
    if mode.stdout.isatty():
        raise InputError("standard output is a terminal, which cannot show a binary file; redirect it (> FILE), or give OUT a name")
    _make_way(mode)
    return mode.stdout.buffer


def user_stdout() -> TextIO:
    return _mode.get().stdout


def _make_way(mode: _Mode) -> None:
    if not mode.silent:
        sys.stdout = sys.stderr  # until `speaking` ends, which puts back what was there


def reader_left() -> bool:
    """Whether whoever reads standard output has enough, as `head` has, now that a pipe broke. Then nothing more is written."""
    import select

    stdout = sys.stdout.fileno()
    if hasattr(select, "poll"):  # not on Windows
        pipe = select.poll()
        pipe.register(stdout, 0)  # that a reader left is told unasked
        if not pipe.poll(0):
            return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), stdout)
    return True


def as_json(results: Any) -> str:
    return json.dumps(_plain(results), indent=2, allow_nan=False).replace("\x7f", "\\u007f")  # all else is ASCII that shows


def print_results(results: Any) -> None:
    typer.echo(as_json(results))


def _plain(value: Any) -> Any:
    """In JSON's own types; what is not finite becomes null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif hasattr(value, "tolist"):  # arrays and scalars of numpy, which may not be loaded
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None  # NaN is not below anything
    return value if value is None or isinstance(value, int | str) else str(value)


def progress() -> "Progress":
    """Bars: how many of how many, how long, how much longer, and the description of each."""
    import rich
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    class Description(ProgressColumn):
        """As it is: no markup, no names of emoji."""

        def render(self, task: Task) -> Text:
            return Text(printable(task.description))

    columns = (TextColumn("{task.completed}/{task.total}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    # Lines that are said meanwhile stand above the bars, if both are on one terminal; rich would take them there from a file, too.
    together = sys.stdout.isatty()
    return Progress(*columns, Description(), console=rich.get_console(), redirect_stdout=together)


def track(things: Iterable[_T], doing: str, total: int | None = None) -> Iterator[_T]:
    """A bar for one loop."""
    with progress() as bar:
        yield from bar.track(things, total, description=doing)


def busy(doing: str) -> "Status":
    """A sign of life, for work whose progress nobody can tell."""
    import rich
    from rich.text import Text

    return rich.get_console().status(Text(printable(doing)))


def let_go() -> None:
    """Send out what waits. What a full disk or a closed stream does not take is dropped, or Python would complain at its end."""
    failed: OSError | None = None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            failed = failed or error
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except ValueError:  # closed
            pass
    if failed is not None:
        raise failed
