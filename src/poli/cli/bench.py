"""`poli bench`: the project's numbers, each measured against rivals in the same run."""

from pathlib import Path
from typing import Annotated

import typer

bench = typer.Typer(help="Measure against rivals in the same run; tables, plots and JSON.", no_args_is_help=True)

_Out = Annotated[Path, typer.Option(help="Folder for the table and the plot; made if needed.")]
_Json = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")]


@bench.command()
def layer(
    out: _Out = Path("results"),
    json_path: _Json = None,
    problems: Annotated[int, typer.Option(help="Random problems for the certified fraction.")] = 1000,
    repeats: Annotated[int, typer.Option(help="Problems timed for each size and method.")] = 15,
    largest: Annotated[int, typer.Option(help="Largest number of matches timed.")] = 100_000,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """The certified pose layer against cvxpylayers (Clarabel and SCS), forward and backward.

    Example: poli bench layer --json layer.json
    """
    from poli.bench.layer import LayerBench, run

    run(LayerBench(problems=problems, repeats=repeats, largest=largest, seed=seed), out, json_path)


@bench.command()
def pca(
    out: _Out = Path("results"),
    json_path: _Json = None,
    scan: Annotated[Path | None, typer.Option(help="A scan file to thin to each size; a simulated street if not given.")] = None,
    repeats: Annotated[int, typer.Option(help="Runs of each; the median counts.")] = 21,
) -> None:
    """PCA of 24 neighbours against Open3D and small_gicp, on the same points with the same threads.

    Example: poli bench pca --scan scan.bin --json pca.json
    """
    from poli.bench.pca import run

    run(out, json_path, scan, repeats)
