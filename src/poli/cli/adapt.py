"""`poli adapt`: a log of one's own sensor in, a model tuned to it out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.data_options import (
    DatasetName,
    DatasetOptions,
    SensorName,
    SequenceName,
    TopicName,
    dataset_options,
    file_name,
    open_data,
)
from poli.cli.model_options import network_names
from poli.cli.output import say
from poli.cli.output import track as with_bar

if TYPE_CHECKING:
    from poli.data.datasets import Dataset
    from poli.learn.tracked_log import TrackedLog
    from poli.scan import Scan
    from poli.tasks.odometry import OdometryConfig


def adapt(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A dataset, a folder of scan files, or a ROS bag. Poses are not needed.")
    ],
    dataset: DatasetName = "auto",
    sequence: SequenceName = None,
    topic: TopicName = None,
    sensor: SensorName = None,
    option: DatasetOptions = None,
    model: Annotated[
        str,
        typer.Option(help="The model to begin from: lidar, or the path of a .safetensors file.", autocompletion=network_names),
    ] = "lidar",
    out: Annotated[Path | None, typer.Option(help="Folder for the model and its card; runs/adapt/NAME if not given.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of training; 400 take about a minute.")] = 1500,
    min_range: Annotated[float, typer.Option(min=0.0, help="Meters; drop nearer returns (the vehicle itself).")] = 0.0,
    max_range: Annotated[float, typer.Option(help="Meters; drop farther returns.")] = 120.0,
    voxel: Annotated[float, typer.Option(min=0.0, help="Meters, of odometry; 0: chosen at the first scan.")] = 0.0,
    scans: Annotated[int | None, typer.Option(min=1, help="At most so many scans, from the first.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=99, help="Of all that is drawn at random in training.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew, even if the folder has a run or a model.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write the model even if it is no better on the scans held out.")] = False,
) -> dict[str, Any]:
    """Tune a model to a sensor by a log of it, without ground truth.

    Odometry gives the poses; the sizes of the ellipsoids then learn from pairs
    of scans, and their directions stay. The last fifth of the log judges: a model
    is written only if it explains those scans better. About five minutes.

    Examples:
    poli adapt drive.bag --topic /points --min-range 2
    poli adapt kitti --sequence 07 --out runs/my_sensor
    poli adapt scans --steps 400 --scans 300
    """
    from poli.cli.train import training_progress
    from poli.estimation.inference import load_model
    from poli.learn.adapt import AdaptConfig, check_free
    from poli.learn.adapt import adapt as tune
    from poli.tasks.odometry import OdometryConfig

    opened = open_data(data, dataset, dataset_options(option or [], sequence, topic, sensor))
    folder = out or Path("runs") / "adapt" / file_name(opened.name)
    check_free(folder, fresh, model)
    load_model(model)  # before odometry takes its time
    settings = AdaptConfig(steps, seed=seed)
    log = track(
        opened, OdometryConfig(voxel=voxel, model=model, min_range=min_range, max_range=max_range, on_loss="restart"), scans
    )
    with training_progress(folder) as listener:
        result = tune(log, folder, model, settings, listener, fresh, force)
    before, after = result.before, result.after
    say(
        f"{log.name}: {len(log.scans)} scans, {log.meters:.0f} m; {result.learned_pairs} pairs learned from, "
        f"{result.held_out_pairs} held out; {result.minutes:.1f} minutes"
    )
    say(
        f"held out, before and after: NLL {before.nll:.3f} {after.nll:.3f}; mean of d'(2C)^-1 d {before.nees:.2f} {after.nees:.2f} "
        "(3 when calibrated)"
    )
    if not result.kept:
        remedy = "a longer log may help" if result.model is None else "written all the same, as --force asks"
        say(f"no better than {model} on the scans held out: {remedy}", warning=True)
    if result.model is not None:
        say(f"{result.model}: use it with poli.estimate(points, model={str(result.model)!r})")
    elif not result.kept:
        say(f"no model was written; go on with --model {model}, or have it anyway with --force --fresh")
    return {"name": log.name, "scans": len(log.scans), "meters": log.meters, **vars(result)}


def track(opened: "Dataset", config: "OdometryConfig", max_scans: int | None = None) -> "TrackedLog":
    """Odometry over a dataset, with a progress bar: what is known of the pose of each scan."""
    from poli.learn.tracked_log import TrackedLog
    from poli.tasks.odometry import Odometer

    odometer = Odometer(config)
    count = len(opened) if max_scans is None else min(len(opened), max_scans)
    for number in with_bar(range(count), f"odometry of {opened.name}"):
        odometer.add(opened[number])
    return TrackedLog.of(opened.name, Returns(opened, count, config.min_range, config.max_range), odometer.steps)


class Returns(Sequence["Scan"]):
    """The scans of a dataset, read when they are needed, with the returns that odometry takes."""

    def __init__(self, opened: "Dataset", count: int, min_range: float, max_range: float) -> None:
        self._opened, self._count, self._min_range, self._max_range = opened, count, min_range, max_range

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row):
        import numpy as np

        scan = self._opened[row].clean()
        distance = np.linalg.norm(scan.points.astype(np.float64), axis=1)
        return scan.select((distance >= self._min_range) & (distance <= self._max_range))
