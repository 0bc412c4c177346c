"""`python -m benchmarks throughput`: how fast scans become denser."""

from pathlib import Path
from typing import Annotated

import typer


def throughput(
    out: Annotated[Path, typer.Option(help="Folder for the table; made if needed.")] = Path("results"),
    json_path: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    model: Annotated[str, typer.Option(help="A shipped model's name or the path of a .safetensors file.")] = "lidar",
    scans: Annotated[int, typer.Option(min=1, help="Of the drive; fewer if it has no more.")] = 240,
    place: Annotated[str, typer.Option(help="A held-out place to drive through.")] = "town",
    sensor: Annotated[str, typer.Option(help="A name, or a file of beams.")] = "vlp16",
    drives: Annotated[Path, typer.Option(help="Folder where simulated drives are kept; missing ones are made.")] = Path(
        "runs/throughput_drives"
    ),
    data: Annotated[Path | None, typer.Option(help="Scans to take instead: a folder of them, a sequence, a bag.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes, and workers of the cluster, of one thread each.")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Passes of each; the median counts.")] = 3,
) -> None:
    """Scans a second of `poli densify`, of files and of a bag: one worker, processes, and a local dask cluster.

    Needs the extras `ros` and `cluster`.

    Examples:
    python -m benchmarks throughput --json throughput.json
    """
    from benchmarks.experiments.throughput import ThroughputBench, run
    from poli.tasks.densify import DensifyConfig

    command = f"python -m benchmarks throughput --model {Path(model).name} --scans {scans} --workers {workers} --repeats {repeats}"
    command += " --data DATA" if data else f" --place {place} --sensor {Path(sensor).name}"
    bench = ThroughputBench(DensifyConfig(model=model), sensor, place, scans, drives, data, workers, repeats)
    run(bench, out, json_path, command)
