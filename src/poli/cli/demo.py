"""`poli demo`: see it work in a minute or two, with nothing but the package."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poli.cli.output import say


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page, pictures and files; made if needed.")] = Path("demo_output"),
) -> dict[str, Any]:
    """See what it does, on a scan of a simulated town: ellipsoids, a denser scan, a pose, and forty scans of odometry.

    All of it is compared with the truth and with PCA, and written as a page for
    the browser, pictures, point clouds, poses and figures. The first run on a
    machine compiles, and takes a minute or so; later ones a quarter of that.

    Examples:
    poli demo
    poli demo --out pictures
    """
    from poli.cli.demo_screen import print_summary, watched

    with watched() as tell:
        tell("loading", 0.0)
        from poli.show.demo import run_demo

        summary = run_demo(out, tell, lambda page: say(f"Open {page} in a browser while the rest is done", to_stderr=True))
    print_summary(summary, out)
    return {"out": str(out), **summary.as_json()}
