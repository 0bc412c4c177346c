"""The command line: one file a verb. Heavy modules load inside the verbs, so that `poli --help` answers at once."""

from typing import Annotated

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
from poli.errors import PoliError

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


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> None:
    try:
        app()
    except (PoliError, OSError) as error:
        typer.secho(f"poli: {error}", fg=typer.colors.RED, err=True)
        raise SystemExit(1) from None
