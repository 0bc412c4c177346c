"""`poli train`: a configuration in, a folder with weights, logs and a learning curve out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from poli.learn.trainer import Listener


def train(
    config: Annotated[Path, typer.Argument(help="A TOML file; see configs/.")],
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/NAME if not given.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew, even if the folder has a checkpoint.")] = False,
) -> None:
    """Train a network from pairs of clouds and measured poses. Started again, a run goes on from its last checkpoint.

    Examples: poli train configs/objects.toml
              torchrun --nproc-per-node 2 -m poli train configs/objects.toml
    """
    import os

    from poli.errors import MissingExtra
    from poli.learn.config import read_config
    from poli.learn.trainer import train as run

    settings = read_config(config)
    folder = out or Path("runs") / settings.name
    first = os.environ.get("RANK", "0") == "0"
    model = run(settings, folder, _progress(folder) if first else None, fresh)
    if not first:
        return
    typer.echo(f"{model}: use it with poli.estimate(points, model={str(model)!r})")
    try:
        from poli.show.curve import draw_curve

        typer.echo(f"{draw_curve(folder)}: the learning curve")
    except MissingExtra as error:
        typer.echo(f"no learning curve drawn: {error}")


def _progress(folder: Path) -> "Listener":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from poli.learn.trainer import Listener, StepReport
    from poli.learn.validate import Validation

    class Bar(Listener):
        def __init__(self) -> None:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
            self.bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn())
            self.tasks: dict[str, int] = {}

        def _at(self, name: str, done: int, total: int, text: str) -> None:
            if not self.tasks:
                self.bar.start()
            if name not in self.tasks:
                self.tasks[name] = self.bar.add_task(text, total=total)
            self.bar.update(self.tasks[name], completed=done, description=text)  # type: ignore[arg-type]
            if name == "steps" and done == total:
                self.bar.stop()

        def shapes(self, made: int, total: int) -> None:
            self._at("shapes", made, total, "shapes")

        def step(self, report: StepReport, total: int) -> None:
            text = f"loss {report.loss:.3f}  NEES {report.nees:.2f}  certified {report.certified:.2f}"
            self._at("steps", report.step, total, text)

        def validated(self, step: int, result: Validation) -> None:
            text = f"normals {result.normal_rmse:.1f} / {result.normal_median:.1f} deg (RMSE / median), NEES {result.nees:.2f}"
            self.bar.console.print(f"{folder.name} step {step}: held out {text}")

        def warning(self, text: str) -> None:
            self.bar.console.print(f"[yellow]warning:[/yellow] {text}")

    return Bar()
