"""`poli densify`: add points to scans, for systems that do not use ellipsoids."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.data_options import CalibrationFile, ModelName, TopicName, load_calibration
from poli.cli.output import busy, say
from poli.cli.scan_files import OutOption, ScanFormat, check_place, counted, is_pipe, naming, one_output, output_file, read_scan

# --- Terminal output of `poli densify`: progress and summary.


if TYPE_CHECKING:
    from poli.densification.resume import Tally
    from poli.scan import Scan


@contextmanager
def progress(name: str, total: int) -> "Iterator[Callable[[Tally], None]]":
    from poli.cli import output

    with output.progress() as bar:
        task = bar.add_task(name, total=total)
        yield lambda tally: bar.update(task, completed=tally.scans)


def say_worth(read: "Callable[[], Scan]") -> str:
    """Print a hint if denser scans are unlikely to pay for a sensor and place like this, and return it."""
    from contextlib import suppress

    from poli.densification.config import why_little
    from poli.errors import PoliError

    hint = ""
    with suppress(PoliError, OSError):  # the result is complete; bags with odd stamps, for example, are densified but not read
        if hint := why_little(read()):
            say(f"hint: {hint}")
    return hint


def print_summary(out: Path, tally: "Tally", total: int, seconds: float) -> None:
    before = f", {tally.kept} already done" if tally.kept else ""
    say(f"{out}: {tally.scans} of {total} scans{before}")
    if tally.points_in:
        grown = tally.points_out / tally.points_in
        say(f"points: {tally.points_in} in, {tally.points_out} out, {grown:.2f} times the points")
    if tally.unchanged:
        import warnings

        warnings.warn(f"{tally.unchanged} of {total} scans are unchanged. The first: {tally.why}", stacklevel=2)
    if tally.scans > tally.kept:
        say(f"time: {seconds:.1f} s, {(tally.scans - tally.kept) / max(seconds, 1e-9):.1f} scans/s")


if TYPE_CHECKING:
    from poli.densification import DensifyConfig
    from poli.densification.engines import Engine
    from poli.densification.resume import Tally
    from poli.scan import Scan

    # The number of scans, the function that processes them, and one that reads the first.
    _Job = tuple[int, Callable[[Engine], Generator[Tally, None, None]], Callable[[], Scan]]

_A_WORKER = 8  # scans per worker that justify starting one


def _kinds() -> list[str]:
    from poli.densification.trees import TREES

    return ["auto", "bag", *TREES]


def _orders() -> list[str]:
    from poli.densification.config import ORDERS

    return list(ORDERS)


def _purposes() -> list[str]:
    from poli.densification.config import PURPOSES

    return list(PURPOSES)


def densify(
    data: Annotated[Path, typer.Argument(metavar="IN", help="A scan file, folder of scans, dataset or bag; -: standard input.")],
    out: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="Output, of the same kind as IN; -: standard output, as PCD.")
    ] = None,
    out_option: OutOption = None,
    dataset: Annotated[
        str, typer.Option(help="Kind of IN: kitti, helipr, mulran, poli, folder or bag; auto: detect.", autocompletion=_kinds)
    ] = "auto",
    topic: TopicName = None,
    sensor: Annotated[str | None, typer.Option(help="HeLiPR: densify only this sensor; copy the others unchanged.")] = None,
    sequence: Annotated[
        list[str] | None, typer.Option(help="KITTI, HeLiPR, MulRan: process only this sequence; repeatable.")
    ] = None,
    max_error: Annotated[
        float, typer.Option(min=0.0, help="Accepted error of samples in meters; none where a larger one is expected.")
    ] = 0.05,
    rings: Annotated[
        int | None, typer.Option(min=2, help="Fill the gaps to at most this many rings, and give the new ones numbers.")
    ] = None,
    order: Annotated[
        str, typer.Option(help="Order of the points: originals (then samples), or time (and ring).", autocompletion=_orders)
    ] = "originals",
    purpose: Annotated[
        str, typer.Option(help="What for: odometry, or features (of global registration: more samples).", autocompletion=_purposes)
    ] = "odometry",
    auto: Annotated[bool, typer.Option("--auto", help="Leave scans as they are where denser ones are unlikely to help.")] = False,
    per_point: Annotated[
        int | None, typer.Option(min=0, help="Draw this many samples per ellipsoid, instead of filling gaps between rings.")
    ] = None,
    max_sigma: Annotated[
        float | None, typer.Option(min=0.0, help="Draw samples this far, in standard deviations; 12 if only --per-point is given.")
    ] = None,
    flat: Annotated[bool, typer.Option(help="Draw samples in the plane of the ellipsoid, perpendicular to its normal.")] = True,
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxel size in meters, one ellipsoid per voxel; 0: one per point.")] = 0.2,
    planarity: Annotated[float, typer.Option(min=0.0, max=1.0, help="Sample only ellipsoids with at least this planarity.")] = 0.0,
    max_range: Annotated[float, typer.Option(min=0.0, help="Do not sample beyond this range, in meters; 0: no limit.")] = 120.0,
    max_thickness: Annotated[
        float, typer.Option(min=0.0, help="With --per-point or --max-sigma: skip thicker ellipsoids (meters); 0: no limit.")
    ] = 0.05,
    max_points: Annotated[int, typer.Option(min=0, help="Maximum points per scan, originals included; 0: no limit.")] = 0,
    sample_voxel: Annotated[
        float, typer.Option(min=0.0, help="Keep at most one sample per voxel of this size in meters, none in voxels of originals.")
    ] = 0.0,
    tilted: Annotated[bool, typer.Option("--tilted", help="The sensor's z axis does not point up.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed draws the same samples.")] = 0,
    workers: Annotated[
        int, typer.Option(min=0, help="Worker processes; 1: this process, all threads; 0: one per core if there is enough work.")
    ] = 0,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the cluster of this dask scheduler, such as tcp://host:8786.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Recompute and replace existing output.")] = False,
    resume: Annotated[
        bool, typer.Option(help="Bags: keep finished clouds next to OUT until it is complete, so that a killed run can resume.")
    ] = True,
    calibration: CalibrationFile = None,
    format: ScanFormat = None,
) -> dict[str, Any]:
    """Add points to scans, on the surfaces that their ellipsoids describe.

    Gaps between the rings of a spinning sensor are filled where the returns on both sides
    vouch for one surface. Scans without such gaps get samples around their points.
    The original points come first, unchanged except by --calibration and --rings. Samples
    have the ring in which they lie, a time by azimuth, and the other fields of the nearest
    point. Datasets and bags keep their layout, fields and all other files, topics and
    messages. Start an interrupted run again to resume it; finished scans are kept.

    Examples:
    poli densify scan.pcd dense.pcd --max-error 0.05
    poli densify drive.bag dense.bag --rings 64 --order time --auto
    poli densify drive.bag dense.bag --topic /points
    poli densify scans dense --purpose features
    poli densify Roundabout01 Roundabout01_dense --sensor velodyne
    poli densify kitti kitti_dense --sequence 05 --sequence 07 --workers 8
    cat scan.bin | poli densify - - > dense.pcd
    """
    from contextlib import closing
    from time import perf_counter

    from poli.cli.odometry import stop_requests
    from poli.densification import DensifyConfig
    from poli.densification.engines import engine
    from poli.densification.resume import Tally, check_apart, remove_finished
    from poli.densification.trees import SEVERAL
    from poli.errors import InputError

    out = one_output(out, out_option)
    settings = DensifyConfig(
        per_point=per_point, max_sigma=max_sigma, flat=flat, model=model, voxel=voxel, upright=not tilted, planarity=planarity,
        max_range=max_range or None, max_thickness=max_thickness or None, max_points=max_points or None,
        sample_voxel=sample_voxel, seed=seed, calibration=load_calibration(calibration),
        max_error=max_error, rings=rings, order=order, purpose=purpose, auto=auto,
    )  # fmt: skip
    sequences = tuple(sequence or ())
    kind = _kind(data, dataset, sequences)
    _check_options(
        kind, topic=(topic, ("bag",)), sensor=(sensor, ("helipr",)), format=(format, ("scan",)),
        sequence=(sequences[0] if sequences else None, SEVERAL),
    )  # fmt: skip
    if kind == "scan":
        return _densify_scan(data, out, settings, format)
    if is_pipe(out):
        raise InputError(f"-: standard output takes only a single scan, and {data} is of kind {kind!r}; give OUT a name")
    if kind == "bag" and out.exists() and not overwrite:
        check_apart(data, out)
        remove_finished(out)
        say(f"{out}: already exists and was left unchanged; use --overwrite to recompute it", warning=True)
        return {"out": out, "scans": 0}
    # Check the input before starting workers, to fail early.
    if kind == "bag":
        total, run, first = _bag(data, out, topic, settings, overwrite, resume)
    else:
        total, run, first = _tree(data, out, kind, sensor, sequences, settings, overwrite)
    tally, begin = Tally(), perf_counter()
    with (
        stop_requests() as stop,
        engine(_worker_count(workers, total), scheduler) as chosen,
        progress(out.name, total) as show,
        closing(run(chosen)) as steps,
    ):
        for tally in steps:
            show(tally)
            if stop.signal and tally.scans < total:
                break
    seconds = perf_counter() - begin
    print_summary(out, tally, total, seconds)
    hint = say_worth(first) if tally.points_out > tally.points_in else ""
    if tally.scans < total:
        remedy = "run it again to resume" if kind != "bag" or resume else "nothing was kept (--no-resume)"
        say(f"poli: interrupted after {tally.scans} of {total} scans; {remedy}", warning=True, to_stderr=True)
        raise typer.Exit(128 + (stop.signal or 2))
    return {"out": out, **vars(tally), "seconds": seconds, "hint": hint}


def _kind(data: Path, dataset: str, sequences: tuple[str, ...]) -> str:
    from poli.errors import FormatError, InputError, did_you_mean
    from poli.io.datasets import guess
    from poli.io.datasets.bags import ENDINGS

    if is_pipe(data):
        return "scan"
    if dataset not in _kinds():
        raise InputError(f"--dataset {dataset}: expected {', '.join(_kinds())}{did_you_mean(dataset, _kinds())}")
    if not data.exists():
        raise FormatError(f"{data}: no such file or folder")
    if data.is_file():
        return "bag" if data.suffix in ENDINGS else "scan"
    return guess(data, sequences[0] if sequences else None) if dataset == "auto" else dataset


def _check_options(kind: str, **options: tuple[str | None, Sequence[str]]) -> None:
    """Reject options that do not apply to this kind of input; each is given as (value, kinds it applies to)."""
    from poli.errors import InputError

    for name, (value, owners) in options.items():
        if value is not None and kind not in owners:
            raise InputError(
                f"--{name} {value}: the input is of kind {kind!r}, and this option is only for {', '.join(owners)}; remove it"
            )


def _densify_scan(data: Path, out: Path, settings: "DensifyConfig", format: str | None) -> dict[str, Any]:
    from poli.densification import densify as densify_points
    from poli.io.formats import check_ending, write

    with output_file(out, ".pcd") as path, busy(f"densifying {data}"):
        check_place(out, data, Path(settings.model))
        if not is_pipe(out):
            check_ending(out)
        scan = read_scan(data, format)
        with naming(data):
            dense = densify_points(scan, settings)
        write(dense, path)
    say(f"{out}: {counted(len(scan), 'point')} in, {len(dense)} out")
    hint = say_worth(lambda: scan) if len(dense) > len(scan) else ""
    return {"out": out, "points_in": len(scan), "points_out": len(dense), "dropped": scan.dropped, "hint": hint}


def _bag(data: Path, out: Path, topic: str | None, settings: "DensifyConfig", overwrite: bool, resume: bool) -> "_Job":
    from poli.densification.bags import densify_bag, look_into_bag
    from poli.io.datasets import dataset

    bag = look_into_bag(data, out, topic)

    def run(engine: "Engine") -> "Generator[Tally, None, None]":
        return densify_bag(bag, out, settings, engine, resume, overwrite)

    return bag.clouds, run, lambda: dataset("bag", data, topic=bag.topic)[0]


def _tree(
    data: Path, out: Path, kind: str, sensor: str | None, sequences: tuple[str, ...], settings: "DensifyConfig", overwrite: bool
) -> "_Job":
    from poli.densification.trees import densify_tree, plan_tree, read_input

    tree = plan_tree(data, out, kind, sensor, sequences)

    def run(engine: "Engine") -> "Generator[Tally, None, None]":
        return densify_tree(tree, data, out, settings, engine, overwrite)

    return len(tree.scans), run, lambda: read_input(tree.scans[0])


def _worker_count(asked: int, scans: int) -> int:
    from poli.threads import thread_count

    return asked or max(1, min(thread_count(), scans // _A_WORKER))
