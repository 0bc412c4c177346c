"""The command line: one file a verb. Heavy modules load inside the verbs, so that `poli --help` answers at once."""

import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from poli.cli.adapt import adapt
from poli.cli.bench import bench
from poli.cli.commands import Commands
from poli.cli.convert import convert
from poli.cli.demo import demo
from poli.cli.densify import densify
from poli.cli.estimate import estimate
from poli.cli.export import export
from poli.cli.models import models
from poli.cli.node import node
from poli.cli.odometry import odometry
from poli.cli.register import register
from poli.cli.simulate import simulate
from poli.cli.train import train
from poli.cli.trouble import EXIT_CODES, explain
from poli.cli.view import view

_EPILOG = "`poli COMMAND --help` has examples. Where a scan goes in or out, - is standard input or output."

app = Commands(name="poli", help="Point clouds as fields of Gaussian ellipsoids.", epilog=f"{_EPILOG}\n\n{EXIT_CODES}")
app.command()(adapt)
app.command()(convert)
app.command()(demo)
app.command()(densify)
app.command()(estimate)
app.command()(export)
app.command()(models)
app.command()(node)
app.command()(odometry)
app.command()(register)
app.command()(simulate)
app.command()(train)
app.command()(view)
app.add_typer(bench, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        from poli.cli.version import print_version

        print_version()
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and whether all of it works here."),
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, that of this process if none is given. Trouble is one line on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in words  # even where the rest cannot be understood
    if isinstance(sys.stdout, TextIOWrapper):  # names of files may be no UTF-8; errors go to stderr, which copes with them
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.showwarning = _one_line
            code = app(args=words, prog_name="poli", standalone_mode=False) or 0
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            import traceback

            traceback.print_exception(error)
        line, code = explain(error)
        if line:
            typer.secho(f"poli: {line}", fg=typer.colors.RED, err=True)
    raise SystemExit(code)


def _one_line(message: Warning | str, *_: object, **__: object) -> None:
    typer.secho(f"poli: warning: {' '.join(str(message).split())}", fg=typer.colors.YELLOW, err=True)
