"""The command line. Heavy modules are imported inside the commands to keep `poli --help` fast."""

import io
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from poli.cli.commands import EXIT_CODES, Commands, explain
from poli.cli.convert import convert
from poli.cli.densify import densify
from poli.cli.estimate import estimate
from poli.cli.installed import export, models_app, print_version, warmup
from poli.cli.node import node_app
from poli.cli.odometry import odometry
from poli.cli.output import let_go, say
from poli.cli.register import register
from poli.cli.simulate import demo, simulate
from poli.cli.train import adapt, calibrate, train
from poli.cli.view import view

_EPILOG = "`poli COMMAND --help` shows examples. Use - as a scan file for standard input or output."

app = Commands(name="poli", help="Point clouds as fields of Gaussian ellipsoids.", epilog=f"{_EPILOG}\n\n{EXIT_CODES}")
_VERBS: tuple[Callable[..., Any], ...] = (
    adapt, calibrate, convert, demo, densify, estimate, export, odometry, register, simulate, train, view, warmup,
)  # fmt: skip
for _verb in _VERBS:
    app.command()(_verb)
app.add_typer(models_app)
app.add_typer(node_app)


def _version(wanted: bool) -> None:
    if wanted:
        print_version()
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version and check the installation."),
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, by default that of this process. Errors are one line on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in words  # even if the rest cannot be parsed
    if isinstance(sys.stdout, io.TextIOWrapper):  # do not fail on characters the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(words, debug)
        let_go()
    except OSError as error:  # writing to stdout or stderr failed
        with suppress(OSError):
            say(f"poli: {explain(error)[0]}", error=True)
        code = 2
        with suppress(OSError):
            let_go()
    raise SystemExit(code)


def _run(words: list[str], debug: bool) -> int:
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.showwarning = _one_line
            return app(args=words, prog_name="poli", standalone_mode=False) or 0
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            import traceback

            traceback.print_exception(error)
        text, code = explain(error)
        if text:
            say(f"poli: {' '.join(text.split())}", error=True)
        return code


def _one_line(message: Warning | str, *_: object, **__: object) -> None:
    say(f"poli: warning: {' '.join(str(message).split())}", warning=True, to_stderr=True)
