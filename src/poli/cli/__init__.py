"""The command line: one file a verb. Heavy modules load inside the verbs, so that `poli --help` answers at once."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from poli.cli.adapt import adapt
from poli.cli.bench import bench
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
from poli.cli.view import view
from poli.errors import DensityWarning, PoliError

app = typer.Typer(
    name="poli",
    help="Point clouds as fields of Gaussian ellipsoids.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(adapt)
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
        import poli

        typer.echo(f"poli {poli.__version__}")
        raise typer.Exit


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """What the library warns of, without the line of code that a program would want to see."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
            if issubclass(category, DensityWarning):
                typer.secho(f"poli: warning: {message}", fg=typer.colors.YELLOW, err=True)
            else:
                others(message, category, *where, **options)

        warnings.showwarning = show
        warnings.simplefilter("always", DensityWarning)
        yield


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    context.with_resource(_warnings_as_lines())


def main() -> None:
    try:
        app()
    except (PoliError, OSError) as error:
        typer.secho(f"poli: {error}", fg=typer.colors.RED, err=True)
        raise SystemExit(1) from None
