"""`poli train`: train a model from a configuration. `poli adapt` and `poli calibrate`: learn from the log of a sensor."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.commands import Only
from poli.cli.inputs import AsRecorded, DatasetOptions, LogPath, NetworkOption, file_name
from poli.cli.output import Bars, say, track
from poli.configs import AdaptConfig, CalibrateConfig, OdometryConfig
from poli.errors import InputError

if TYPE_CHECKING:
    from poli.train.trainer import Listener


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file; see configs/.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/NAME.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the datasets and meshes that CONFIG names; default: that of CONFIG.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over even if the folder has a checkpoint.")] = False,
) -> dict[str, Any] | None:
    """Train a network from pairs of clouds and measured poses. An interrupted run resumes from its last checkpoint.

    Recorded sequences need no poses: odometry estimates them, unless CONFIG says
    otherwise. The time left is shown, without a terminal every half minute.

    Examples:
    poli train configs/objects.toml
    poli train configs/lidar.toml --out runs/mine --fresh
    poli train configs/paper/vlp16_0.5m.toml --data /data/helipr
    """
    import os

    from poli.train.config import read_config
    from poli.train.tracked_log import tracker
    from poli.train.trainer import Listener
    from poli.train.trainer import train as run
    from poli.viewer.plots import draw_curve

    settings = read_config(config)
    folder = out or Path("runs") / settings.name
    processes = settings.schedule.processes if "RANK" not in os.environ else 1  # of several, or started by torchrun
    first = os.environ.get("RANK", "0") == "0"
    if data is not None and not data.is_dir():
        raise InputError(f"--data {data}: no such folder; give the one that holds the datasets or meshes of {config}")
    words = [str(config), "--out", str(folder), *([] if data is None else ["--data", str(data)])]
    with _others(words, processes), training_progress(folder) if first else nullcontext(Listener()) as listener:
        track = tracker(settings.scans, listener.tracked) if settings.scans else None
        model = run(settings, folder, listener, fresh, config.parent, track=track, data=data)
    if not first:
        return None
    say(f"{model}: use it with poli.estimate(points, model={str(model)!r})")
    curve = draw_curve(folder)
    say(f"{curve}: the learning curve")
    return {"model": model, "curve": curve}


@contextmanager
def _others(arguments: list[str], processes: int) -> "Iterator[None]":
    """Start the other processes of a run and describe the group in the environment, as torchrun does. This process is the first."""
    if processes == 1:
        yield
        return
    import os
    import socket
    import subprocess
    import sys

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes), "RANK": "0", "LOCAL_RANK": "0"}
    words = [sys.executable, "-m", "poli", "train", *arguments]
    started = []
    before = {name: os.environ.get(name) for name in group}
    try:
        os.environ.update(group)
        for rank in map(str, range(1, processes)):
            started += [subprocess.Popen(words, env={**os.environ, "RANK": rank, "LOCAL_RANK": rank})]
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        for other in started:
            other.terminate()
            other.wait()


def adapt(
    data: LogPath,
    source: DatasetOptions,
    start: NetworkOption,
    config: AdaptConfig,
    tracking: Annotated[OdometryConfig, Only("voxel", "min_range", "max_range")],
    out: Annotated[Path | None, typer.Option(help="Output folder for the model and its card; default: runs/adapt/NAME.")] = None,
    scans: Annotated[int | None, typer.Option(min=1, help="Use only the first N scans.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over even if the folder has a run or a model.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write the model even if it is not better on the held-out scans.")] = False,
) -> dict[str, Any]:
    """Tune a model to a sensor from a recorded log, without ground truth.

    Odometry provides the poses. Training on pairs of scans changes the sizes of
    the ellipsoids, not their directions. The last fifth of the log is held out: the
    model is written only if it explains those scans better than before. Takes about
    four minutes of CPU time for 300 scans: 0.2 s per scan for odometry, and 0.1 s per
    step. Progress is printed every half minute without a terminal.

    Examples:
    poli adapt drive.bag --topic /points --min-range 2
    poli adapt kitti --sequence 07 --out runs/my_sensor
    poli adapt scans --steps 400 --scans 300
    """
    from poli.estimation.estimate import load_model
    from poli.train.adapt import adapt as tune
    from poli.train.adapt import check_free
    from poli.train.tracked_log import track as follow

    opened, model = source.open(data), start.model
    folder = out or Path("runs") / "adapt" / file_name(opened.name)
    check_free(folder, fresh, model)
    load_model(model)  # fail before the slow odometry
    log = follow(opened, replace(tracking, model=model, on_loss="restart"), track, scans)
    with training_progress(folder) as listener:
        result = tune(log, folder, model, config, listener, fresh, force)
    before, after = result.before, result.after
    say(f"{log.name}: {len(log.scans)} scans, {log.meters:.0f} m; {result.minutes:.1f} minutes")
    say(f"pairs: {result.learned_pairs} for training, {result.held_out_pairs} held out")
    say(f"held out, NLL: {before.nll:.3f} before, {after.nll:.3f} after")
    say(f"held out, mean of d'(2C)^-1 d: {before.nees:.2f} before, {after.nees:.2f} after (3 when calibrated)")
    if not result.kept:
        remedy = "written anyway (--force)" if result.model else "no model was written; use a longer log, or --force --fresh"
        say(f"not better than {model} on the held-out scans: {remedy}", warning=True)
    if result.model is not None:
        say(f"{result.model}: use it with poli.estimate(points, model={str(result.model)!r})")
    return {"name": log.name, "scans": len(log.scans), "meters": log.meters, **vars(result)}


def calibrate(
    data: LogPath,
    source: AsRecorded,
    config: CalibrateConfig,
    out: Annotated[Path | None, typer.Option(help="Output TOML file, replaced if it exists; default: beams_NAME.toml.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write the file even if held-out scans do not agree better.")] = False,
) -> dict[str, Any]:
    """Find the constant errors of a spinning sensor's beams from a recorded log, without ground truth or targets.

    Finds the elevation and the range offset of each ring that make the surfaces
    seen by several rings and scans agree. The last quarter of the scans is held
    out: the file is written only if their surfaces become thinner. Pass it to other
    commands as --calibration. Takes one to three minutes.

    Examples:
    poli calibrate drive.bag --topic /points --out beams.toml
    poli calibrate kitti --sequence 07 --option correct_elevation=false
    poli odometry drive.bag --topic /points --calibration beams.toml
    """
    from poli.beams.calibrate import calibrate as find
    from poli.io.atomic import check_new_file

    opened = source.open(data)
    place = out or Path(f"beams_{file_name(opened.name)}.toml")
    check_new_file(place)
    with Bars(opened.name) as bar:
        task = bar.add_task(f"odometry of {opened.name}")
        result = find(opened, config, progress=lambda done, total: bar.update(task, completed=done, total=total))
    found, verdict = result.calibration, result.held_out
    kinds = {"field": "the field `ring`", "nearest": "clusters of elevation", "between": "knots of elevation (the beams overlap)"}
    say(f"{opened.name}: {result.scans} scans, {result.meters:.0f} m; {len(found.beams)} beams from {kinds[found.rings]}")
    up, out_by = found.corrections.mean(axis=0)
    low, high = found.corrections.min(axis=0), found.corrections.max(axis=0)
    say(f"to add, on average: {up:+.3f} degrees of elevation (from {low[0]:+.3f} to {high[0]:+.3f})")
    say(f"to add, on average: {100 * out_by:+.1f} cm of range (from {100 * low[1]:+.1f} to {100 * high[1]:+.1f})")
    say(f"held out, mean robust cost of {verdict.planes} planes: {verdict.before:.4f} before, {verdict.after:.4f} after")
    say(f"difference: {verdict.before - verdict.after:.4f} +- {verdict.sigma:.4f}")
    written = result.kept or force
    if written:
        found.save(place)
        say(f"{place}: use it with --calibration {place}")
    if not result.kept:
        remedy = "written anyway (--force)" if written else "no file was written; use a longer log, or write it anyway with --force"
        say(f"the held-out scans do not agree better with these corrections: {remedy}", warning=True)
    told = {"out": place if written else None, "kept": result.kept, "scans": result.scans, "meters": result.meters}
    return {**told, "rings": found.rings, "held_out": verdict, "beams": found.beams}


@contextmanager
def training_progress(folder: Path) -> "Iterator[Listener]":
    """Yield a listener that shows the progress of a training run."""
    from rich.progress import TaskID

    from poli.train.trainer import Listener, StepReport
    from poli.train.validate import Validation

    with Bars(folder.name or str(folder)) as bar:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int, text: str = "") -> None:
            text = text or name
            if name not in tasks:
                tasks[name] = bar.add_task(text, total=total)
            bar.update(tasks[name], completed=done, description=text)

        class Screen(Listener):
            def shapes(self, made: int, total: int) -> None:
                show("surfaces", made, total)

            def tracked(self, name: str, done: int, total: int) -> None:
                show(name, done, total)

            def step(self, report: StepReport, total: int) -> None:
                text = f"loss {report.loss:.3f}  NEES {report.nees:.2f}  certified {report.certified:.2f}"
                show("steps", report.step, total, text)

            def validated(self, step: int, result: Validation) -> None:
                say(f"{folder.name} step {step}: held out NEES {result.nees:.2f}, normals {result.normal_rmse:.1f} deg (RMSE)")

            def warning(self, text: str) -> None:
                say(f"warning: {text}", warning=True)

        yield Screen()
