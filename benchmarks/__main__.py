"""`python -m benchmarks`: the project's numbers, each measured against rivals in the same run."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks import cli_augmentation, cli_odometry, cli_throughput
from poli.cli.commands import Commands
from poli.cli.model_options import NetworkName
from poli.errors import InputError

bench = Commands(help="Measure against rivals in the same run; tables, plots and JSON.")

bench.command()(cli_odometry.odometry)
bench.command()(cli_odometry.labels)
bench.command()(cli_odometry.adapt)
bench.command()(cli_augmentation.augmentation)
bench.command()(cli_augmentation.density)
bench.command()(cli_augmentation.registration)
bench.command()(cli_throughput.throughput)

_Out = Annotated[Path, typer.Option(help="Folder for the table and the plot; made if needed.")]
_Json = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")]


@bench.command()
def layer(
    out: _Out = Path("results"),
    json_path: _Json = None,
    problems: Annotated[int, typer.Option(help="Random problems for the certified fraction.")] = 1000,
    repeats: Annotated[int, typer.Option(help="Problems timed for each size and method.")] = 15,
    largest: Annotated[int, typer.Option(help="Largest number of matches timed.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the random problems.")] = 0,
) -> None:
    """The certified pose layer against cvxpylayers (Clarabel and SCS), forward and backward.

    Example:
    python -m benchmarks layer --json layer.json
    """
    from benchmarks.experiments.layer import LayerBench, run

    run(LayerBench(problems=problems, repeats=repeats, largest=largest, seed=seed), out, json_path)


@bench.command()
def certificate(
    out: _Out = Path("results"),
    json_path: _Json = None,
    problems: Annotated[int, typer.Option(min=1, help="Random problems of each kind; ten times as many sound ones.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the random problems.")] = 0,
) -> None:
    """Degenerate pose problems of 23 kinds, the same nudged off, and sound ones: accepted, certified, wrong.

    Example:
    python -m benchmarks certificate --problems 1000
    """
    from benchmarks.experiments.certificate import run

    run(problems, seed, out, json_path)


@bench.command()
def pca(
    out: _Out = Path("results"),
    json_path: _Json = None,
    scan: Annotated[Path | None, typer.Option(help="A scan file to thin to each size; a simulated town if not given.")] = None,
    repeats: Annotated[int, typer.Option(help="Runs of each; the median counts.")] = 21,
) -> None:
    """PCA of 24 neighbours against Open3D and small_gicp, on the same points with the same threads.

    Example:
    python -m benchmarks pca --scan scan.bin --json pca.json
    """
    from benchmarks.experiments.pca import run

    run(out, json_path, scan, repeats)


_Meshes = Annotated[
    list[Path] | None, typer.Option("--mesh", help="A .ply or .obj mesh; give it again for more. Our own shapes if not given.")
]


@bench.command()
def objects(
    out: _Out = Path("results"),
    json_path: _Json = None,
    mesh: _Meshes = None,
    model: NetworkName = "objects",
    pairs: Annotated[int, typer.Option(min=1, help="Pairs for each object and number of points.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of the pairs that are drawn.")] = 0,
) -> None:
    """Normals, registration and calibration on objects, against PCA, KISS-Matcher and the surface's own normals.

    Example:
    python -m benchmarks objects --mesh dragon.ply --mesh happy_buddha.ply
    """
    from benchmarks.experiments.objects import ObjectsBench, run

    command = _command("objects", mesh, f"--model {Path(model).name} --pairs {pairs} --seed {seed}")
    run(ObjectsBench(tuple(mesh or ()), model, pairs=pairs, seed=seed), out, json_path, command)


@bench.command()
def noise(
    config: Annotated[Path, typer.Argument(help="A training configuration; its loss and noise are replaced.")],
    out: _Out = Path("results"),
    json_path: _Json = None,
    mesh: _Meshes = None,
    runs: Annotated[Path, typer.Option(help="Folder for the twelve training runs; they resume.")] = Path("runs/noise"),
) -> None:
    """Train with T-Q-C, T-T-Q-C and T-T-Q-C-map at pose noise 0 to 0.03 and compare the normals (supplement SE).

    Example:
    python -m benchmarks noise configs/noise.toml --mesh dragon.ply
    """
    from benchmarks.experiments.noise import NoiseBench, run
    from poli.learn.config import read_config

    command = _command(f"noise {config.name}", mesh, "")
    run(NoiseBench(read_config(config), config.parent, tuple(mesh or ())), runs, out, json_path, command)


@bench.command()
def relaxation(
    out: _Out = Path("results"),
    json_path: _Json = None,
    steps: Annotated[int, typer.Option(min=1, help="Of the training that the loss curves come from.")] = 600,
    runs: Annotated[Path, typer.Option(help="Folder for the training run.")] = Path("runs/relaxation"),
) -> None:
    """What leaving the prior out of the inner problem changes: the supplement's two scenarios and two loss curves (SC).

    Example:
    python -m benchmarks relaxation
    """
    from benchmarks.experiments.relaxation import run

    run(steps, runs, out, json_path, f"python -m benchmarks relaxation --steps {steps}")


@bench.command()
def step(
    out: _Out = Path("results"),
    json_path: _Json = None,
    points: Annotated[int, typer.Option(min=16, help="Points of the cloud.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Steps and passes in each of three turns.")] = 15,
    lidar: Annotated[Path | None, typer.Option(help="A configuration of scans: a step of that instead of one of objects.")] = None,
) -> None:
    """Where the time of a training step goes, against forward and backward passes of cvxpylayers.

    Examples:
    python -m benchmarks step --points 1000
    python -m benchmarks step --points 16000 --lidar configs/lidar.toml
    """
    from benchmarks.experiments.step import run
    from poli.learn.config import read_config

    run(points, repeats, out, json_path, read_config(lidar) if lidar else None)


@bench.command()
def geometry(
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: NetworkName = "lidar",
    real: Annotated[
        Path | None,
        typer.Option(help="A folder of real sequences in the layout of KITTI odometry; without it, held-out worlds only."),
    ] = None,
    spots: Annotated[int, typer.Option(min=1, help="Spots in each of the six held-out places.")] = 2,
    pictures: Annotated[bool, typer.Option(help="Draw raw scan, PCA, POLI and truth side by side, and every sensor.")] = True,
) -> None:
    """Normals, samples and likelihood of scans by sensor, voxel size and range, against PCA with its best settings.

    Example:
    python -m benchmarks geometry --real sequences
    """
    from benchmarks.experiments.geometry import GeometryBench, run
    from benchmarks.experiments.geometry_pictures import draw

    command = f"python -m benchmarks geometry --model {Path(model).name} --spots {spots}" + (" --real SEQUENCES" if real else "")
    run(GeometryBench(model, spots, real=real), out, json_path, command)
    if pictures:
        draw(model, out)


@bench.command()
def generalisation(
    config: Annotated[Path, typer.Argument(help="The configuration of the one model.")] = Path("configs/lidar.toml"),
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: Annotated[str, typer.Option(help="The one model: a shipped one's name or the path of a .safetensors file.")] = "lidar",
    steps: Annotated[int, typer.Option(min=1, help="Of each specialist's training.")] = 2500,
    worlds: Annotated[int, typer.Option(min=1, help="That each specialist is trained in.")] = 30,
    runs: Annotated[Path, typer.Option(help="Folder for the training runs; they resume.")] = Path("runs/generalisation"),
) -> None:
    """The one LiDAR model against models trained for one sensor and voxel size only, in and out of their domain.

    Example:
    python -m benchmarks generalisation configs/lidar.toml
    """
    from benchmarks.experiments.generalisation import GeneralisationBench, run
    from poli.learn.config import read_config

    command = f"python -m benchmarks generalisation {config.name} --model {Path(model).name} --steps {steps} --worlds {worlds}"
    run(GeneralisationBench(read_config(config), model, worlds=worlds, steps=steps), runs, out, json_path, command)


@bench.command()
def runtime(
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: NetworkName = "lidar",
    sizes: Annotated[str | None, typer.Option(help="Numbers of points, as 5000,10000; from 5,000 to 120,000 if not given.")] = None,
    real: Annotated[
        Path | None,
        typer.Option(help="A folder of real sequences in the layout of KITTI odometry; without it, a simulated town only."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each; the median counts.")] = 11,
    first_call: Annotated[bool, typer.Option(help="Also time a first call, with an empty cache of kernels.")] = True,
) -> None:
    """Time and memory of an estimate by number of points, stage by stage, against our PCA, Open3D's and small_gicp's.

    Example:
    python -m benchmarks runtime --real sequences --json runtime.json
    """
    from benchmarks.experiments.runtime import SIZES, RuntimeBench, run

    chosen = _numbers(sizes, "sizes") if sizes else SIZES
    command = f"python -m benchmarks runtime --model {Path(model).name} --repeats {repeats}" + (
        f" --sizes {sizes}" if sizes else ""
    )
    command += (" --real SEQUENCES" if real else "") + ("" if first_call else " --no-first-call")
    run(RuntimeBench(model, chosen, repeats, real, first_call), out, json_path, command)


@bench.command()
def engines(
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: NetworkName = "lidar",
    sizes: Annotated[str, typer.Option(help="Numbers of points, with commas between them.")] = "10000,30000",
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each; the median counts.")] = 11,
) -> None:
    """The same trained network on the same clouds by our kernels, eager torch, ONNX Runtime and OpenVINO.

    Example:
    python -m benchmarks engines --repeats 21
    """
    from benchmarks.experiments.engines import run

    command = f"python -m benchmarks engines --model {Path(model).name} --sizes {sizes} --repeats {repeats}"
    run(model, _numbers(sizes, "sizes"), repeats, out, json_path, command)


def _command(verb: str, meshes: list[Path] | None, options: str) -> str:
    return " ".join(["poli bench", verb, *(f"--mesh {path.name}" for path in meshes or ()), options]).strip()


def _numbers(text: str, name: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise InputError(f"{name} is {text!r}; expected whole numbers with commas between them, as 5000,10000")
    return tuple(int(word) for word in words)


if __name__ == "__main__":
    bench(prog_name="python -m benchmarks")
