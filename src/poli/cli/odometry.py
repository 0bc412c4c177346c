"""`poli odometry`: estimate the poses of scans; write poses, a summary and a plot."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    open_data,
)
from poli.cli.model_options import ModelName
from poli.cli.output import say

if TYPE_CHECKING:
    from poli.data.datasets import Dataset
    from poli.tasks.odometry import OdometryConfig


class Against(StrEnum):
    map = "map"
    scan = "scan"


class OnLoss(StrEnum):
    stop = "stop"
    restart = "restart"


def odometry(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A dataset, a folder of scan files, or a ROS bag.")],
    dataset: DatasetName = "auto",
    sequence: SequenceName = None,
    topic: TopicName = None,
    sensor: SensorName = None,
    option: DatasetOptions = None,
    calibration: CalibrationFile = None,
    out: Annotated[
        Path | None, typer.Option(help="New output folder; default: results/odometry/NAME/DATE_TIME, linked as `latest`.")
    ] = None,
    against: Annotated[Against, typer.Option(help="Align each scan to a map, or only to the previous scan.")] = Against.map,
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxel size in meters; 0: chosen from the first scan.")] = 0.0,
    model: ModelName = "lidar",
    deskew: Annotated[bool, typer.Option("--deskew", help="Undo the motion within each scan, using the point times.")] = False,
    min_range: Annotated[float, typer.Option(min=0.0, help="Drop returns nearer than this, in meters (the vehicle itself).")] = 0.0,
    max_range: Annotated[float, typer.Option(help="Drop returns farther than this, in meters.")] = 120.0,
    radius: Annotated[float, typer.Option(help="Keep the map within this distance of the sensor, in meters.")] = 120.0,
    on_loss: Annotated[OnLoss, typer.Option(help="If a scan cannot be localized: stop, or start a new map.")] = OnLoss.stop,
    patience: Annotated[int, typer.Option(min=0, help="Bridge up to this many consecutive scans with too few returns.")] = 5,
    tilted: Annotated[bool, typer.Option("--tilted", help="The sensor's z axis does not point up.")] = False,
    first: Annotated[int, typer.Option(min=0, help="Index of the first scan.")] = 0,
    scans: Annotated[int | None, typer.Option(min=1, help="Maximum number of scans.")] = None,
    save_map: Annotated[bool, typer.Option("--save-map", help="Write map.ply: the ellipsoids of the final map.")] = False,
) -> dict[str, Any]:
    """Estimate the pose of each scan of a recording.

    Writes the poses in TUM and KITTI format, scan by scan, a table with the status
    of each scan, a summary and a plot. Ctrl-C ends a run early and keeps the
    results so far. If the data have ground truth poses, errors are reported.

    Examples:
    poli odometry kitti --sequence 07
    poli odometry drive.bag --topic /ouster/points --deskew
    poli odometry Roundabout01 --sensor ouster --voxel 0.5
    poli odometry scans --model pca --against scan --scans 50
    """
    import time

    from poli.cli.odometry_screen import draw, print_summary, progress, stop_requests
    from poli.errors import InputError, PoliError
    from poli.tasks.odometry import Odometer, OdometryConfig, TrackingLost
    from poli.tasks.odometry.recording import Recording, dated_folder, link_latest
    from poli.tasks.odometry.summary import Ending, summarize

    if save_map and against is not Against.map:
        raise InputError("--save-map: there is no map with --against scan; remove one of the two")
    settings = OdometryConfig(
        against=against.value, voxel=voxel, model=model, upright=not tilted, deskew=deskew,
        min_range=min_range, max_range=max_range, radius=radius, patience=patience, on_loss=on_loss.value,
    )  # fmt: skip
    options = dataset_options(option or [], sequence, topic, sensor)
    opened = calibrated(open_data(data, dataset, options), calibration)
    if first >= len(opened):
        raise InputError(f"--first {first}: {opened.name} has {len(opened)} scans; the last index is {len(opened) - 1}")
    asked = len(opened) - first if scans is None else min(len(opened) - first, scans)
    about = _about(settings, opened, {"path": str(data), "dataset": dataset, "options": options, "first": first, "scans": asked})
    truth = None if opened.poses is None else opened.poses[first : first + asked]  # (asked, 4, 4)

    begin, odometer, ending, trouble = time.perf_counter(), Odometer(settings), Ending(), None
    folder = out or dated_folder(Path("results") / "odometry" / file_name(opened.name))
    with Recording(folder, about, first) as recording:
        if out is None:
            link_latest(folder)
        with stop_requests() as stop, progress(opened.name, asked) as show:
            try:
                for number in range(first, first + asked):
                    if stop.signal:
                        raise KeyboardInterrupt
                    step = odometer.add(opened[number])
                    recording.append(step)
                    show(step)
            except KeyboardInterrupt:
                ending = Ending(interrupted=True)
            except PoliError as error:
                ending, trouble = Ending(reason=str(error)), error
        summary = summarize(recording.steps, asked, first, odometer.voxel, truth, ending, time.perf_counter() - begin)
        recording.finish(summary, truth)
    if save_map and odometer.map is not None:
        odometer.map.field.write_ply(folder / "map.ply")
    print_summary(summary, opened)
    draw(folder, summary)
    if isinstance(trouble, TrackingLost):
        trouble.about(f"tracking lost{f' (index {first + trouble.index} in the data)' if first else ''}")
    if trouble is not None:
        raise trouble
    if ending.interrupted:
        say(f"poli: interrupted after {summary.scans_done} of {asked} scans", warning=True, to_stderr=True)
        raise typer.Exit(128 + (stop.signal or 2))
    return {"folder": folder, **summary.as_json()}


# --- configuration


def _about(settings: "OdometryConfig", opened: "Dataset", data: dict[str, Any]) -> dict[str, Any]:
    """Contents of config.json. Loads the model, so that a failure happens before anything is written."""
    from dataclasses import asdict
    from datetime import datetime
    from hashlib import sha256

    import poli
    from poli.estimation.inference import load_model, shipped_models

    model: dict[str, Any] = {"name": settings.model}
    if settings.model != "pca":
        load_model(settings.model)
        if settings.model not in shipped_models():
            model["sha256"] = sha256(Path(settings.model).read_bytes()).hexdigest()
    known = {"name": opened.name, "truth": opened.poses is not None, "skipped": [asdict(skip) for skip in opened.skipped]}
    began = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"poli": poli.__version__, "began": began, "data": {**data, **known}, "model": model, "odometry": asdict(settings)}
