"""`poli densify`: scans in, the same scans with more points out, for systems that know nothing of ellipsoids."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.data_options import TopicName
from poli.cli.model_options import ModelName
from poli.cli.output import busy, say
from poli.cli.scan_files import OutOption, ScanFormat, check_place, counted, is_pipe, naming, one_output, output_file, read_scan

if TYPE_CHECKING:
    from poli.tasks.densify import DensifyConfig
    from poli.tasks.densify.engines import Certificates, Engine
    from poli.tasks.densify.report import Tally

    _Job = tuple[int, Callable[[Engine], Generator[Tally, None, None]]]  # how many scans, and what does them

_A_WORKER = 8  # scans that are worth starting one


def _kinds() -> list[str]:
    from poli.tasks.densify.trees import TREES

    return ["auto", "bag", *TREES]


def densify(
    data: Annotated[Path, typer.Argument(metavar="IN", help="A scan file, a folder of them, a dataset, or a ROS bag; -: a scan.")],
    out: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="The same kind of thing, to be made; -: a scan, as PCD.")
    ] = None,
    out_option: OutOption = None,
    dataset: Annotated[
        str, typer.Option(help="kitti, helipr, mulran, poli, folder or bag; auto goes by what is there.", autocompletion=_kinds)
    ] = "auto",
    topic: TopicName = None,
    sensor: Annotated[str | None, typer.Option(help="HeLiPR: densify this sensor alone; the others stay as they are.")] = None,
    sequence: Annotated[
        list[str] | None, typer.Option(help="KITTI, HeLiPR, MulRan: make this sequence alone; give it again for more.")
    ] = None,
    per_point: Annotated[int, typer.Option(min=0, help="Samples of each ellipsoid.")] = 1,
    max_sigma: Annotated[
        float, typer.Option(min=0.0, help="Standard deviations: how far from its parent a sample may lie.")
    ] = 12.0,
    flat: Annotated[bool, typer.Option(help="Samples lie in the plane of their ellipsoid, across its normal.")] = True,
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Meters: one ellipsoid a voxel; 0: one a point.")] = 0.2,
    planarity: Annotated[float, typer.Option(min=0.0, max=1.0, help="Sample only ellipsoids at least so planar.")] = 0.0,
    max_range: Annotated[float, typer.Option(min=0.0, help="Meters: sample nothing farther; 0: no limit.")] = 120.0,
    max_thickness: Annotated[float, typer.Option(min=0.0, help="Meters: sample no thicker ellipsoids; 0: no limit.")] = 0.05,
    max_points: Annotated[int, typer.Option(min=0, help="Points a scan, originals included; 0: no limit.")] = 0,
    sample_voxel: Annotated[
        float, typer.Option(min=0.0, help="Meters: one sample a voxel of this size at most, none at originals.")
    ] = 0.0,
    tilted: Annotated[bool, typer.Option("--tilted", help="The sensor's z axis does not point up.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the samples; the same seed draws the same ones.")] = 0,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes; 1: this one with all its threads; 0: one a core if there is work for them.")
    ] = 0,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Work on the cluster of this dask scheduler, such as tcp://host:8786.")
    ] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="Cluster: a PEM file, the authority that signed its certificates.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Cluster: a PEM file with the certificate to show to it.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Cluster: a PEM file with the key of that certificate.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Make anew what is there already.")] = False,
    resume: Annotated[
        bool, typer.Option(help="Bags: keep finished clouds beside OUT until it is done, for a run that is killed to go on.")
    ] = True,
    format: ScanFormat = None,
) -> dict[str, Any]:
    """Add points to scans, drawn from the ellipsoids of theirs.

    The originals come first, as they are; every sample has the time, ring and
    whatever else of its parent. Datasets and bags keep their layout, fields and
    all other files, topics and messages. A run that was stopped goes on when it
    is started again; what is finished is not done twice.

    Examples:
    poli densify scan.pcd dense.pcd --max-sigma 4
    poli densify drive.bag dense.bag --topic /points
    poli densify Roundabout01 Roundabout01_dense --sensor velodyne
    poli densify kitti kitti_dense --sequence 05 --sequence 07 --workers 8
    cat scan.bin | poli densify - - > dense.pcd
    """
    from contextlib import closing
    from time import perf_counter

    from poli.cli.densify_screen import print_summary, progress
    from poli.cli.odometry_screen import stop_requests
    from poli.errors import InputError
    from poli.tasks.densify import DensifyConfig
    from poli.tasks.densify.engines import engine
    from poli.tasks.densify.report import Tally
    from poli.tasks.densify.resume import check_apart, remove_finished
    from poli.tasks.densify.sequences import SEVERAL

    out = one_output(out, out_option)
    settings = DensifyConfig(
        per_point=per_point, max_sigma=max_sigma, flat=flat, model=model, voxel=voxel, upright=not tilted, planarity=planarity,
        max_range=max_range or None, max_thickness=max_thickness or None, max_points=max_points or None,
        sample_voxel=sample_voxel, seed=seed,
    )  # fmt: skip
    certificates = _certificates(scheduler, tls_ca, tls_cert, tls_key)
    sequences = tuple(sequence or ())
    kind = _kind(data, dataset, sequences)
    _check_options(
        kind, topic=(topic, ("bag",)), sensor=(sensor, ("helipr",)), format=(format, ("scan",)),
        sequence=(sequences[0] if sequences else None, SEVERAL),
    )  # fmt: skip
    if kind == "scan":
        return _densify_scan(data, out, settings, format)
    if is_pipe(out):
        raise InputError(f"-: standard output takes one scan, and {data} is of kind {kind!r}; give OUT a name")
    if kind == "bag" and out.exists() and not overwrite:
        check_apart(data, out)
        remove_finished(out)
        say(f"{out}: is there already, and left as it is; --overwrite makes it anew", warning=True)
        return {"out": out, "scans": 0}
    # Before workers are started: what is wrong with the input is told at once.
    if kind == "bag":
        total, run = _bag(data, out, topic, settings, overwrite, resume)
    else:
        total, run = _tree(data, out, kind, sensor, sequences, settings, overwrite)
    tally, begin = Tally(), perf_counter()
    with (
        stop_requests() as stop,
        engine(_worker_count(workers, total), scheduler, certificates) as chosen,
        progress(out.name, total) as show,
        closing(run(chosen)) as steps,
    ):
        for tally in steps:
            show(tally)
            if stop.signal and tally.scans < total:
                break
    seconds = perf_counter() - begin
    print_summary(out, tally, total, seconds)
    if tally.scans < total:
        remedy = "start it again to go on" if kind != "bag" or resume else "with --no-resume nothing of it is kept"
        say(f"poli: interrupted after {tally.scans} of {total} scans; {remedy}", warning=True, to_stderr=True)
        raise typer.Exit(128 + (stop.signal or 2))
    return {"out": out, **vars(tally), "seconds": seconds}


def _kind(data: Path, dataset: str, sequences: tuple[str, ...]) -> str:
    from poli.data.datasets import guess
    from poli.data.datasets.bags import ENDINGS
    from poli.errors import FormatError, InputError, did_you_mean

    if is_pipe(data):
        return "scan"
    if dataset not in _kinds():
        raise InputError(f"--dataset {dataset}: expected {', '.join(_kinds())}{did_you_mean(dataset, _kinds())}")
    if not data.exists():
        raise FormatError(f"{data}: no such file or folder")
    if data.is_file():
        return "bag" if data.suffix in ENDINGS else "scan"
    return guess(data, sequences[0] if sequences else None) if dataset == "auto" else dataset


def _certificates(scheduler: str | None, ca: Path | None, cert: Path | None, key: Path | None) -> "Certificates | None":
    from poli.errors import InputError
    from poli.tasks.densify.engines import Certificates

    if ca is None and cert is None and key is None:
        return None
    if ca is None or cert is None or key is None:
        raise InputError("--tls-ca, --tls-cert and --tls-key belong together; give all three, or none of them")
    if scheduler is None:
        raise InputError(f"--tls-ca {ca}: certificates are for a cluster; add --scheduler tls://HOST:PORT, or leave them out")
    return Certificates(ca, cert, key)


def _check_options(kind: str, **options: tuple[str | None, Sequence[str]]) -> None:
    """Each has the value it was given, and the kinds of input that it is for."""
    from poli.errors import InputError

    for name, (value, owners) in options.items():
        if value is not None and kind not in owners:
            raise InputError(
                f"--{name} {value}: the input is of kind {kind!r}, and this is an option of {', '.join(owners)} alone; leave it out"
            )


def _densify_scan(data: Path, out: Path, settings: "DensifyConfig", format: str | None) -> dict[str, Any]:
    from poli.data import write
    from poli.data.formats import check_ending
    from poli.tasks.densify import densify as densify_points

    with output_file(out, ".pcd") as path, busy(f"densifying {data}"):
        check_place(out, data, Path(settings.model))
        if not is_pipe(out):
            check_ending(out)
        scan = read_scan(data, format)
        with naming(data):
            dense = densify_points(scan, settings)
        write(dense, path)
    say(f"{out}: {counted(len(scan), 'point')} in, {len(dense)} out")
    return {"out": out, "points_in": len(scan), "points_out": len(dense), "dropped": scan.dropped}


def _bag(data: Path, out: Path, topic: str | None, settings: "DensifyConfig", overwrite: bool, resume: bool) -> "_Job":
    from poli.tasks.densify.bags import densify_bag, look_into_bag

    bag = look_into_bag(data, out, topic)
    return bag.clouds, lambda engine: densify_bag(bag, out, settings, engine, resume, overwrite)


def _tree(
    data: Path, out: Path, kind: str, sensor: str | None, sequences: tuple[str, ...], settings: "DensifyConfig", overwrite: bool
) -> "_Job":
    from poli.tasks.densify.trees import densify_tree, plan_tree

    tree = plan_tree(data, out, kind, sensor, sequences)
    return len(tree.scans), lambda engine: densify_tree(tree, data, out, settings, engine, overwrite)


def _worker_count(asked: int, scans: int) -> int:
    from poli.threads import thread_count

    return asked or max(1, min(thread_count(), scans // _A_WORKER))
