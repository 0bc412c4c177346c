"""`poli odometry`: estimate the poses of scans; write poses, a summary and a plot."""

import shlex
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from poli.cli.inputs import DatasetOptions, check_place, file_name
from poli.cli.output import AGAIN, Bars, say
from poli.configs import OdometryConfig
from poli.errors import FormatError, InputError, PoliError
from poli.threads import stop_requests

if TYPE_CHECKING:
    from poli.io.datasets import Dataset
    from poli.lidar_odometry import MapFile

_LISTED = 5  # scans listed on the terminal; the files list all


def odometry(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A dataset, a folder of scan files, or a ROS bag.")],
    source: DatasetOptions,
    config: OdometryConfig,
    out: Annotated[Path | None, typer.Option(help="New output folder; default: results/odometry/NAME/DATE_TIME.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in the folder given by --out.")] = False,
    first: Annotated[int, typer.Option(min=0, help="Index of the first scan.")] = 0,
    scans: Annotated[int | None, typer.Option(min=1, help="Maximum number of scans.")] = None,
    map_file: Annotated[Path | None, typer.Option("--map", help="Write a map of the whole drive to this .ply file.")] = None,
    map_kind: Annotated[Literal["points", "ellipsoids"], typer.Option(help="Content of the map, one per voxel.")] = "points",
    map_voxel: Annotated[float, typer.Option(min=0.0, help="Meters; 0: a quarter of --voxel; ellipsoids: odometry's cells.")] = 0.0,
) -> dict[str, Any]:
    """Estimate the pose of each scan of a recording.

    Writes the poses in TUM and KITTI format, scan by scan, a table with the status
    of each scan, a summary and a plot. Ctrl-C ends a run early and keeps the
    results so far. If the data have ground truth poses, errors are reported.
    A run that fails before its first pose leaves no files.

    Examples:
    poli odometry drive.bag --topic /ouster/points
    poli odometry raw_scans --deskew azimuth --counterclockwise
    poli odometry Roundabout01 --sensor ouster --voxel 0.5
    poli odometry kitti --sequence 07 --map map.ply --map-voxel 0.1
    """
    from poli.lidar_odometry import DriveMap, Odometer, TrackingLost
    from poli.lidar_odometry.run_folder import Recording, summarize

    opened = source.open(data)
    if first >= len(opened):
        raise InputError(f"--first {first}: {opened.name} has {len(opened)} scans; the last index is {len(opened) - 1}")
    asked = len(opened) - first if scans is None else min(len(opened) - first, scans)
    asked_for = {"path": str(data), "dataset": source.dataset, "options": source.given, "first": first, "scans": asked}
    about = _about(config, opened, asked_for)
    truth = None if opened.poses is None else opened.poses[first : first + asked]  # (asked, 4, 4)

    begin, odometer, interrupted, reason, trouble = time.perf_counter(), Odometer(config), False, None, None
    drive_map = None if map_file is None else DriveMap(map_file, odometer, map_kind, map_voxel)
    if map_file is not None:
        _check_map(map_file, out, data, Path(config.model))
    parent = Path("results") / "odometry" / file_name(opened.name)
    with (
        Recording(out or parent, about, first, dated=out is None, overwrite=overwrite) as recording,
        drive_map or nullcontext(),
    ):
        with stop_requests(AGAIN) as stop, Bars(opened.name) as bars:
            task = bars.add_task(opened.name, total=asked)
            try:
                for number in range(first, first + asked):
                    if stop.signal:
                        raise KeyboardInterrupt
                    scan = opened[number]
                    recording.append(odometer.add(scan))
                    bars.update(task, advance=1)
                    if drive_map is not None:
                        drive_map.add(scan)
            except KeyboardInterrupt:
                interrupted = True
            except PoliError as error:
                trouble, reason = error, str(error)
            try:  # before the summary, which describes the map
                if drive_map is not None:
                    drive_map.close()
            except (KeyboardInterrupt, PoliError) as error:
                interrupted = interrupted or isinstance(error, KeyboardInterrupt)
                trouble = trouble or (error if isinstance(error, PoliError) else None)
        summary = summarize(recording.steps, asked, first, odometer, truth, time.perf_counter() - begin, interrupted, reason)
        recording.finish(summary, truth, drive_map.written if drive_map else None)
    if summary["scans_done"]:
        _print_summary(summary, opened)
        _draw(recording.folder, drive_map.written if drive_map else None)
    if isinstance(trouble, TrackingLost):
        trouble.about(f"tracking lost{f' (index {first + trouble.index} in the data)' if first else ''}")
    if trouble is not None:
        raise trouble
    if interrupted:
        say(f"poli: interrupted after {summary['scans_done']} of {asked} scans", warning=True, to_stderr=True)
        raise typer.Exit(128 + (stop.signal or 2))
    return {"folder": recording.folder, "map": map_file, **summary}


def _check_map(path: Path, out: Path | None, data: Path, model: Path) -> None:
    """Check that the map can be written, except that its folder may be that of the run, which does not exist yet."""
    if path.is_file() and data.is_dir() and path.resolve().is_relative_to(data.resolve()):
        raise FormatError(f"--map {path}: already exists and is inside the data, {data}; choose another name")
    if out is None or path.parent.resolve() != out.resolve() or out.exists():
        check_place(path, data, model)


def _about(config: OdometryConfig, opened: "Dataset", data: dict[str, Any]) -> dict[str, Any]:
    """Contents of config.json. Loads the model, so that a failure happens before anything is written."""
    from datetime import datetime
    from hashlib import sha256

    import poli
    from poli.estimation.estimate import load_model, shipped_models

    model: dict[str, Any] = {"name": config.model}
    if config.model != "pca":
        load_model(config.model)
        if config.model not in shipped_models():
            model["sha256"] = sha256(Path(config.model).read_bytes()).hexdigest()
    known = {"name": opened.name, "truth": opened.poses is not None, "skipped": [asdict(skip) for skip in opened.skipped]}
    began = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"poli": poli.__version__, "began": began, "data": {**data, **known}, "model": model, "odometry": asdict(config)}


# --- Terminal output.


def _print_summary(summary: dict[str, Any], opened: "Dataset") -> None:
    skipped = [f"skipped in the data: {skip.what}: {skip.why}" for skip in opened.skipped]
    odd = [f"scan {one['scan']} {one['status']}: {one['note']}" for one in summary["not_tracked"]]
    for lines, file in ((skipped, "config.json"), (odd, "summary.json")):
        more = [f"and {len(lines) - _LISTED} more ({len(lines)} in total; see {file})"] if len(lines) > _LISTED else []
        for line in lines[:_LISTED] + more:
            say(f"warning: {line}", warning=True)
    rate = f"{summary['scans_per_second']:.1f}" if summary["scans_per_second"] else "-"
    stages = ", ".join(f"{name} {1e3 * t['median']:.0f}" for name, t in summary["seconds"].items())
    counts = ", ".join(f"{count} {status}" for status, count in summary["statuses"].items())
    say(f"{opened.name}: {summary['scans_done']} of {summary['scans_asked']} scans, path {summary['path_length']:.1f} m")
    say(f"status: {counts}")
    say(f"time: {rate} scans/s; median ms per scan: {stages}; voxel {summary['voxel']:.2g} m")
    say(summary["deskewing"])
    if summary["without_stamp"]:
        say(f"{summary['without_stamp']} scans have no stamp; assumed {summary['period']:g} s between scans (--period)")
    if summary["evaluation"] is not None:
        say("RMSE against ground truth, translation and rotation:")
    for name, measure in (summary["evaluation"] or {}).items():
        if not measure["count"]:
            say(f"  {measure['title']}: none, {measure['none_because']}")
            continue
        shown = [
            f"{measure['rmse'][part]:.4f} {unit}" for part, unit in zip(("translation", "rotation"), measure["units"], strict=True)
        ]
        # Umeyama's alignment fits only positions: the rotation is undefined on a straight path.
        say(f"  {measure['title']}: {', '.join(shown[:1] if name == 'ape_umeyama' else shown)} ({measure['count']})")


def _draw(folder: Path, written: "MapFile | None") -> None:
    from poli.viewer.plots import draw_trajectory

    draw_trajectory(folder)
    say(f"{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    if written is not None:
        size = written.path.stat().st_size / 1e6
        say(f"{written.path}: {written.count:,} {written.kind}, one per voxel of {written.voxel:g} m, {size:.1f} MB")
    say(f"view it: poli view {shlex.quote(str(folder))}")
