"""`poli train`: train a model from a configuration; write weights, logs and a learning curve."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.output import say

if TYPE_CHECKING:
    from poli.train.trainer import Listener


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file; see configs/.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/NAME.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over even if the folder has a checkpoint.")] = False,
) -> dict[str, Any] | None:
    """Train a network from pairs of clouds and measured poses. An interrupted run resumes from its last checkpoint.

    Recorded sequences need no poses: odometry estimates them.

    Examples:
    poli train configs/objects.toml
    poli train configs/lidar.toml --out runs/mine --fresh
    torchrun --nproc-per-node 2 -m poli train configs/objects.toml
    """
    import os

    from poli.train.config import read_config
    from poli.train.tracked_log import tracker
    from poli.train.trainer import train as run
    from poli.viewer.plots import draw_curve

    settings = read_config(config)
    folder = out or Path("runs") / settings.name
    first = os.environ.get("RANK", "0") == "0"
    if not first:
        silent = tracker(settings.scans, lambda *_: None) if settings.scans else None
        run(settings, folder, None, fresh, config.parent, track=silent)
        return None
    with training_progress(folder) as listener:
        track = tracker(settings.scans, listener.tracked) if settings.scans else None
        model = run(settings, folder, listener, fresh, config.parent, track=track)
    say(f"{model}: use it with poli.estimate(points, model={str(model)!r})")
    curve = draw_curve(folder)
    say(f"{curve}: the learning curve")
    return {"model": model, "curve": curve}


@contextmanager
def training_progress(folder: Path) -> "Iterator[Listener]":
    from rich.progress import TaskID

    from poli.cli.output import ProgressLines
    from poli.train.trainer import Listener, StepReport
    from poli.train.validate import Validation

    with ProgressLines(folder.name or str(folder)) as bar:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int, text: str) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(text, total=total)
            bar.update(tasks[name], completed=done, description=text)

        class Screen(Listener):
            def shapes(self, made: int, total: int) -> None:
                show("shapes", made, total, "surfaces")

            def tracked(self, name: str, done: int, total: int) -> None:
                show(name, done, total, name)

            def step(self, report: StepReport, total: int) -> None:
                text = f"loss {report.loss:.3f}  NEES {report.nees:.2f}  certified {report.certified:.2f}"
                show("steps", report.step, total, text)

            def validated(self, step: int, result: Validation) -> None:
                # Recorded scans have no true normals.
                known = result.normal_rmse == result.normal_rmse
                normals = f"normals {result.normal_rmse:.1f} / {result.normal_median:.1f} deg (RMSE / median), " if known else ""
                say(f"{folder.name} step {step}: held out {normals}NEES {result.nees:.2f}")

            def warning(self, text: str) -> None:
                say(f"warning: {text}", warning=True)

        yield Screen()
