"""`poli calibrate`: find the constant errors of a sensor's beams in a recorded log."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poli.cli.data_options import (
    DatasetName,
    DatasetOptions,
    Deskew,
    DeskewMode,
    NetworkName,
    SensorName,
    SequenceName,
    TopicName,
    dataset_options,
    file_name,
    open_data,
)
from poli.cli.output import progress, say


def calibrate(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A dataset, a folder of scan files, or a ROS bag. Poses are not needed.")
    ],
    dataset: DatasetName = "auto",
    sequence: SequenceName = None,
    topic: TopicName = None,
    sensor: SensorName = None,
    option: DatasetOptions = None,
    out: Annotated[Path | None, typer.Option(help="Output TOML file, replaced if it exists; default: beams_NAME.toml.")] = None,
    scans: Annotated[
        int, typer.Option(min=30, help="Most scans to use; of a longer log, stretches that are spread over it.")
    ] = 240,
    model: NetworkName = "lidar",
    deskew: DeskewMode = Deskew.auto,
    min_range: Annotated[float, typer.Option(min=0.0, help="Drop returns nearer than this, in meters (the vehicle itself).")] = 0.0,
    max_range: Annotated[float, typer.Option(help="Drop returns farther than this, in meters.")] = 80.0,
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxel size for odometry, in meters; 0: chosen from the first scan.")] = 0.0,
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
    from poli.beams.calibrate import CalibrateConfig
    from poli.beams.calibrate import calibrate as find
    from poli.io.atomic import check_new_file

    settings = CalibrateConfig(
        max_scans=scans, voxel=voxel, model=model, deskew=deskew.value, min_range=min_range, max_range=max_range
    )
    opened = open_data(data, dataset, dataset_options(option or [], sequence, topic, sensor))
    place = out or Path(f"beams_{file_name(opened.name)}.toml")
    check_new_file(place)
    with progress() as bar:
        task = bar.add_task(f"odometry of {opened.name}")
        result = find(
            opened,
            settings,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    found, verdict = result.calibration, result.held_out
    up, out_by = found.corrections.mean(axis=0)
    kinds = {"field": "the field `ring`", "nearest": "clusters of elevation", "between": "knots of elevation (the beams overlap)"}
    say(f"{opened.name}: {result.scans} scans, {result.meters:.0f} m; {len(found.beams)} beams from {kinds[found.rings]}")
    low, high = found.corrections.min(axis=0), found.corrections.max(axis=0)
    say(
        f"to add, on average: {up:+.3f} degrees of elevation (from {low[0]:+.3f} to {high[0]:+.3f}), "
        f"{100 * out_by:+.1f} cm of range (from {100 * low[1]:+.1f} to {100 * high[1]:+.1f})"
    )
    say(
        f"held out, before and after: mean robust cost {verdict.before:.4f} {verdict.after:.4f}, difference "
        f"{verdict.before - verdict.after:.4f} +- {verdict.sigma:.4f} over {verdict.planes} planes"
    )
    written = result.kept or force
    if written:
        found.save(place)
        say(f"{place}: use it with --calibration {place}")
    if not result.kept:
        remedy = "written anyway (--force)" if written else "no file was written; use a longer log, or write it anyway with --force"
        say(f"the held-out scans do not agree better with these corrections: {remedy}", warning=True)
    return {
        "out": place if written else None, "kept": result.kept, "scans": result.scans, "meters": result.meters,
        "rings": found.rings, "held_out": verdict, "beams": found.beams,
    }  # fmt: skip
