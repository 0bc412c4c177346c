"""`python -m benchmarks odometry`, `labels` and `adapt`: what ellipsoids are worth to odometry, and what its poses are worth to them."""

from pathlib import Path
from typing import Annotated

import typer

from poli.cli.model_options import NetworkName

_Out = Annotated[Path, typer.Option(help="Folder for the table and the plot; made if needed.")]
_Json = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")]


def odometry(
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: NetworkName = "lidar",
    real: Annotated[
        Path | None,
        typer.Option(help="A folder of real sequences in the layout of KITTI odometry; without it, simulated drives only."),
    ] = None,
    drives: Annotated[Path, typer.Option(help="Folder where simulated drives are kept; missing ones are made.")] = Path(
        "runs/odometry_drives"
    ),
    scans: Annotated[int, typer.Option(min=2, help="Of each simulated drive.")] = 121,
    places: Annotated[str | None, typer.Option(help="Held-out places, as town,campus; all six if not given.")] = None,
    sensors: Annotated[str, typer.Option(help="Names with commas between them, or files of beams.")] = "vlp16,os2_128",
    runs: Annotated[Path, typer.Option(help="Folder where outcomes are kept; an interrupted benchmark goes on from there.")] = Path(
        "runs/odometry_bench"
    ),
    fresh: Annotated[
        str | None,
        typer.Option(
            help="Forget kept outcomes first: 'poli' our own (when our code has changed), 'times' what is timed, or 'all'."
        ),
    ] = None,
    processes: Annotated[int, typer.Option(min=0, help="For all that is not timed; 0: one a core.")] = 0,
) -> None:
    """Odometry from scan to scan against small_gicp's four, and on a map against KISS-ICP and GenZ-ICP: errors, drift and time.

    Example:
    python -m benchmarks odometry --real sequences --json odometry.json
    """
    from benchmarks.data.held_out import PLACES
    from benchmarks.experiments.odometry import OdometryBench, run

    command = f"python -m benchmarks odometry --model {Path(model).name} --scans {scans}" + (
        f" --places {places}" if places else ""
    )
    command += f" --sensors {sensors}" + (" --real SEQUENCES" if real else "")
    chosen = tuple(places.split(",")) if places else PLACES
    forgotten = tuple(fresh.split(",")) if fresh else ()
    bench_of = OdometryBench(
        model, tuple(sensors.split(",")), chosen, scans, drives, real, runs=runs, fresh=forgotten, processes=processes
    )
    run(bench_of, out, json_path, command)


def labels(
    config: Annotated[Path, typer.Argument(help="A training configuration of scans; its loss is replaced.")] = Path(
        "configs/lidar_noise.toml"
    ),
    out: _Out = Path("results"),
    json_path: _Json = None,
    drives: Annotated[Path, typer.Option(help="Folder where simulated drives are kept; missing ones are made.")] = Path(
        "runs/odometry_drives"
    ),
    scans: Annotated[int, typer.Option(min=2, help="Of each simulated drive.")] = 121,
    places: Annotated[str | None, typer.Option(help="Held-out places, as town,campus; all six if not given.")] = None,
    spots: Annotated[int, typer.Option(min=1, help="Spots in each of the six held-out places where normals are judged.")] = 2,
    runs: Annotated[Path, typer.Option(help="Folder for the two training runs; they resume.")] = Path("runs/labels"),
) -> None:
    """Train with T-Q-C and T-T-Q-C on wrong poses, and compare odometry and normals of the two (supplement SE).

    Example:
    python -m benchmarks pose_noise configs/lidar_noise.toml
    """
    from benchmarks.data.held_out import PLACES
    from benchmarks.experiments.pose_noise import LabelsBench, run
    from poli.learn.config import read_config

    command = f"python -m benchmarks pose_noise {config.name} --scans {scans} --spots {spots}" + (
        f" --places {places}" if places else ""
    )
    chosen = tuple(places.split(",")) if places else PLACES
    run(LabelsBench(read_config(config), config.parent, chosen, scans, drives, spots), runs, out, json_path, command)


def adapt(
    real: Annotated[Path, typer.Option(help="A folder of real sequences in the layout of KITTI odometry.")],
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: Annotated[str, typer.Option(help="The model to begin from: lidar, or the path of a .safetensors file.")] = "lidar",
    steps: Annotated[int, typer.Option(min=1, help="Of training, for each sequence.")] = 1500,
    runs: Annotated[Path, typer.Option(help="Folder for the adapted models; made anew each time.")] = Path("runs/bench_adapt"),
) -> None:
    """Tune a model to the first half of real sequences without ground truth, and judge it on the second half.

    Example:
    python -m benchmarks adapt --real sequences
    """
    from benchmarks.experiments.adapt import AdaptBench, run
    from poli.learn.adapt import AdaptConfig

    command = f"python -m benchmarks adapt --real SEQUENCES --model {Path(model).name} --steps {steps}"
    run(AdaptBench(real, model, AdaptConfig(steps)), runs, out, json_path, command)
