"""`poli bench adapt`."""

from pathlib import Path
from typing import Annotated

import typer


def adapt(
    real: Annotated[Path, typer.Option(help="A folder of real sequences in the layout of KITTI odometry.")],
    out: Annotated[Path, typer.Option(help="Folder for the table; made if needed.")] = Path("results"),
    json_path: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    model: Annotated[str, typer.Option(help="The model to begin from: lidar, or the path of a .safetensors file.")] = "lidar",
    steps: Annotated[int, typer.Option(min=1, help="Of training, for each sequence.")] = 1500,
    runs: Annotated[Path, typer.Option(help="Folder for the adapted models; made anew each time.")] = Path("runs/bench_adapt"),
) -> None:
    """Tune a model to the first half of real sequences without ground truth, and judge it on the second half.

    Example: poli bench adapt --real sequences
    """
    from poli.bench.adapt import AdaptBench, run
    from poli.learn.adapt import AdaptConfig

    command = f"poli bench adapt --real SEQUENCES --model {Path(model).name} --steps {steps}"
    run(AdaptBench(real, model, AdaptConfig(steps)), runs, out, json_path, command)
