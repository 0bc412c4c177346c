"""`poli demo`: show every step on a simulated scan, without any data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poli.cli.output import say


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
    from poli.cli.demo_screen import print_summary, watched

    with watched() as tell:
        tell("loading", 0.0)
        from poli.show.demo import run_demo

        summary = run_demo(out, tell, lambda page: say(f"Open {page} in a browser while the rest is computed", to_stderr=True))
    print_summary(summary, out)
    return {"out": str(out), **summary.as_json()}
