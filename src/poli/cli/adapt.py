"""`poli adapt`: tune a model to a sensor from a recorded log."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poli.cli.data_options import (
    CalibrationFile,
    DatasetName,
    DatasetOptions,
    SensorName,
    SequenceName,
    TopicName,
    calibrated,
    dataset_options,
    file_name,
    network_names,
    open_data,
)
from poli.cli.output import say, with_progress


def adapt(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A dataset, a folder of scan files, or a ROS bag. Poses are not needed.")
    ],
    dataset: DatasetName = "auto",
    sequence: SequenceName = None,
    topic: TopicName = None,
    sensor: SensorName = None,
    option: DatasetOptions = None,
    calibration: CalibrationFile = None,
    model: Annotated[
        str,
        typer.Option(help="Model to start from: lidar, or the path of a .safetensors file.", autocompletion=network_names),
    ] = "lidar",
    out: Annotated[Path | None, typer.Option(help="Output folder for the model and its card; default: runs/adapt/NAME.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Training steps; each takes about 0.1 s of CPU time.")] = 1500,
    min_range: Annotated[float, typer.Option(min=0.0, help="Drop returns nearer than this, in meters (the vehicle itself).")] = 0.0,
    max_range: Annotated[float, typer.Option(help="Drop returns farther than this, in meters.")] = 120.0,
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxel size for odometry, in meters; 0: chosen from the first scan.")] = 0.0,
    scans: Annotated[int | None, typer.Option(min=1, help="Use only the first N scans.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=99, help="Random seed of training.")] = 0,
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
    from poli.cli.train import training_progress
    from poli.estimation.estimate import load_model
    from poli.lidar_odometry import OdometryConfig
    from poli.train.adapt import AdaptConfig, check_free
    from poli.train.adapt import adapt as tune
    from poli.train.tracked_log import track

    opened = calibrated(open_data(data, dataset, dataset_options(option or [], sequence, topic, sensor)), calibration)
    folder = out or Path("runs") / "adapt" / file_name(opened.name)
    check_free(folder, fresh, model)
    load_model(model)  # fail before the slow odometry
    settings = AdaptConfig(steps, seed=seed)
    odometry = OdometryConfig(voxel=voxel, model=model, min_range=min_range, max_range=max_range, on_loss="restart")
    log = track(opened, odometry, with_progress, scans)
    with training_progress(folder) as listener:
        result = tune(log, folder, model, settings, listener, fresh, force)
    before, after = result.before, result.after
    say(
        f"{log.name}: {len(log.scans)} scans, {log.meters:.0f} m; {result.learned_pairs} training pairs, "
        f"{result.held_out_pairs} held out; {result.minutes:.1f} minutes"
    )
    say(
        f"held out, before and after: NLL {before.nll:.3f} {after.nll:.3f}; mean of d'(2C)^-1 d {before.nees:.2f} {after.nees:.2f} "
        "(3 when calibrated)"
    )
    if not result.kept:
        remedy = "a longer log may help" if result.model is None else "written anyway (--force)"
        say(f"not better than {model} on the held-out scans: {remedy}", warning=True)
    if result.model is not None:
        say(f"{result.model}: use it with poli.estimate(points, model={str(result.model)!r})")
    elif not result.kept:
        say(f"no model was written; keep using --model {model}, or write it anyway with --force --fresh")
    return {"name": log.name, "scans": len(log.scans), "meters": log.meters, **vars(result)}
