"""`poli demo`: show every step on a simulated scan, without any data."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.output import say

# --- Terminal output of `poli demo`: progress and results.


if TYPE_CHECKING:
    from rich.table import Table

    from poli.viewer.demo import Summary


@contextmanager
def watched() -> "Iterator[Callable[[str, float], None]]":
    """Show a progress bar on stderr, if it is a terminal; yields a function of the current step and the share done."""
    import rich
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shared = rich.get_console()
    console = shared if shared.stderr else Console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=console.quiet or not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, share: bar.update(task, completed=share, description=what)


def print_summary(summary: "Summary", out: Path) -> None:
    from rich.console import Console

    from poli.viewer.demo.surfaces import NEIGHBORS

    Console(highlight=False).print(_table(summary))
    lower = f"POLI's median error is {summary.normals.lower:.0%} below PCA's"
    say(f"{lower}; each PCA value is the best over {len(NEIGHBORS)} choices of k.")
    say(f"{summary.seconds:.0f} s in total.")
    say()
    say(f"Open in a browser: {out / 'index.html'} (points, PCA, POLI and ground truth in 3D)")
    say(f"Also in {out}:")
    for names, what in (
        ("points.png pca.png poli.png truth.png", "the same, as pictures"),
        ("densified.png registered.png trajectory.png", "the other three steps"),
        ("scan.ply scan_turned.ply densified.ply", "point clouds"),
        ("splats.ply", "the ellipsoids, for splat viewers"),
        ("poses_tum.txt truth_tum.txt", "poses of the drive"),
        ("summary.json", "all numbers"),
    ):
        say(f"  {names:<44}{what}")
    say()
    say("Next:")
    for command in next_commands(out):
        say(f"  {command}")


def next_commands(out: Path) -> list[str]:
    scan, turned = (shlex.quote(str(out / name)) for name in ("scan.ply", "scan_turned.ply"))
    return [
        f"poli view {scan} --compare --open",
        f"poli register {turned} {scan} --preset vlp16",
        "poli simulate drive --place riverside && poli odometry drive",
    ]


def _table(summary: "Summary") -> "Table":
    """The table of results. Fits into 80 columns, the default if the width is unknown."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    normals, density, pair, drive = summary.normals, summary.density, summary.pair, summary.drive
    title = "Simulated VLP-16 in a town not used for training, against ground truth"
    table = Table("", box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in ("POLI", "PCA", "POLI took", "PCA took"):
        table.add_column(name, justify="right", no_wrap=True)

    def add(label: str, *cells: str, last: bool = False) -> None:
        table.add_row(label, *cells, end_section=last)

    def begin(title: str, *times: str) -> None:
        add(f"[bold]{title}[/bold]", "", "", *times)

    both = normals.poli, normals.pca
    begin(f"Ellipsoids of {normals.points:,} points", *(_time(n.seconds) for n in both))
    add("  median normal error", *(f"{n.median:.1f}°" for n in both))
    add("  normals within 10°", *(f"{n.within_10:.0%}" for n in both), last=True)
    begin(f"Densified to {density.returns + density.samples:,} points", _time(density.seconds))
    add(f"  {density.samples:,} new, distance to surface", _cm(density.samples_median))
    add(f"  {density.returns:,} measured, distance", _cm(density.returns_median), last=True)
    poses = pair.poli, pair.pca
    begin(f"Pose: {pair.apart:.0f} m apart, turned by {pair.turned:.0f}°", *(_time(p.seconds) for p in poses))
    add("  rotation error", *(f"{p.rotation:.2f}°" for p in poses))
    add("  translation error", *(_cm(p.translation) for p in poses))
    add("  certified optimal", *("yes" if p.certified else "no" for p in poses), last=True)
    drives = drive.poli, drive.pca
    begin(f"Odometry: {drive.scans} scans, {drive.path:.0f} m", *(f"{_time(d.seconds)}/scan" for d in drives))
    add("  error at the end", *(_cm(d.end) for d in drives))
    add("  drift", *(f"{100.0 * d.drift:.2f}%" for d in drives))
    add("  error per step (RMSE)", *(_cm(d.step_translation) for d in drives))
    return table


def _cm(meters: float) -> str:
    return f"{100.0 * meters:.1f} cm" if meters >= 0.01 else f"{1000.0 * meters:.1f} mm"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1.0 else f"{1000.0 * seconds:.0f} ms"


def demo(
    out: Annotated[Path, typer.Option(help="Output folder; created if needed.")] = Path("demo_output"),
) -> dict[str, Any]:
    """Run the whole demo on a simulated town: ellipsoids, densification, registration, and forty scans of odometry.

    Compares the results with the ground truth and with PCA, and writes an HTML page,
    pictures, point clouds, poses and a summary. Takes about 10
    seconds, and a minute more the first time, since numba compiles the kernels.

    Examples:
    poli demo
    poli demo --out pictures
    """

    with watched() as tell:
        tell("loading", 0.0)
        from poli.viewer.demo import run_demo

        summary = run_demo(out, tell, lambda page: say(f"Open {page} in a browser while the rest is computed", to_stderr=True))
    print_summary(summary, out)
    return {"out": str(out), **summary.as_json()}
