"""`poli densify`: add points to scans, for systems that do not use ellipsoids."""

import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli import inputs as files
from poli.cli.output import AGAIN, Bars, busy, say
from poli.configs import DensifyConfig
from poli.errors import FormatError, InputError, PoliError, did_you_mean
from poli.threads import stop_requests

if TYPE_CHECKING:
    from poli.densification.resume import Tally
    from poli.scan import Scan

_A_WORKER = 8  # scans per worker that justify starting one


def _kinds() -> list[str]:
    from poli.densification.trees import TREES

    return ["auto", "bag", *TREES]


def densify(
    data: Annotated[Path, typer.Argument(metavar="IN", help="A scan file, folder of scans, dataset or bag; -: standard input.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output, of the same kind as IN; -: standard output, as PCD.")],
    dataset: Annotated[
        str, typer.Option(help="kitti, helipr, mulran, poli, folder or bag; auto: detect.", autocompletion=_kinds)
    ] = "auto",
    topic: Annotated[str | None, typer.Option(help="Bags: point cloud topic, if there are several.")] = None,
    sensor: Annotated[str | None, typer.Option(help="HeLiPR: densify only this sensor; copy the others unchanged.")] = None,
    sequence: Annotated[list[str] | None, typer.Option(help="Datasets: only this sequence; repeatable.")] = None,
    *,
    config: DensifyConfig,
    workers: Annotated[
        int, typer.Option(min=0, help="Worker processes; 1: this process, all threads; 0: one per core if there is enough work.")
    ] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Recompute and replace existing output.")] = False,
    resume: Annotated[
        bool, typer.Option(help="Bags: keep finished clouds next to OUT until it is complete, so that a killed run can resume.")
    ] = True,
    format: files.ScanFormat = None,
) -> dict[str, Any]:
    """Add points to scans, on the surfaces that their ellipsoids describe.

    A gap between the rings of a spinning sensor is filled if the ellipsoids on both sides
    lie on one plane. Scans without such gaps get samples around their points.
    The original points come first, unchanged except by --calibration and --rings. Samples
    have the ring in which they lie, a time by azimuth, and the other fields of the nearest
    point. Datasets and bags keep their layout, fields and all other files, topics and
    messages. Start an interrupted run again to resume it; finished scans are kept.

    Examples:
    poli densify scan.pcd dense.pcd --max-error 0.05
    poli densify drive.bag dense.bag --rings 64 --order time --auto
    poli densify Roundabout01 Roundabout01_dense --sensor velodyne
    poli densify kitti kitti_dense --sequence 05 --sequence 07 --workers 8
    cat scan.bin | poli densify - - > dense.pcd
    """
    from poli.densification.resume import Tally, check_apart, engine
    from poli.densification.trees import SEVERAL
    from poli.io.datasets import dataset as open_dataset
    from poli.threads import thread_count

    sequences = tuple(sequence or ())
    kind = _kind(data, dataset, sequences)
    one = sequences[0] if sequences else None
    owners = {
        "topic": (topic, ("bag",)),
        "sensor": (sensor, ("helipr",)),
        "format": (format, ("scan",)),
        "sequence": (one, SEVERAL),
    }
    for name, (value, kinds) in owners.items():
        if value is not None and kind not in kinds:
            raise InputError(f"--{name} {value}: the input is of kind {kind!r}, and this is only for {', '.join(kinds)}; remove it")
    if kind == "scan":
        return _densify_scan(data, out, config, format)
    if files.is_pipe(out):
        raise InputError(f"-: standard output takes only a single scan, and {data} is of kind {kind!r}; give OUT a name")
    if kind == "bag" and out.exists() and not overwrite:
        check_apart(data, out)
        say(f"{out}: already exists and was left unchanged; use --overwrite to recompute it", warning=True)
        return {"out": out, "scans": 0}
    # Look at the input before starting workers, to fail early.
    first: Callable[[], Scan]
    if kind == "bag":
        from poli.densification.bags import densify_bag, look_into_bag

        bag = look_into_bag(data, out, topic)
        run = partial(densify_bag, bag, out, config, resumable=resume, overwrite=overwrite)
        total, first = bag.clouds, lambda: open_dataset("bag", data, topic=bag.topic)[0]
    else:
        from poli.densification.trees import densify_tree, plan_tree, read_input

        tree = plan_tree(data, out, kind, sensor, sequences)
        run = partial(densify_tree, tree, data, out, config, overwrite=overwrite)
        total, first = len(tree.scans), lambda: read_input(tree.scans[0])
    tally, begin = Tally(), perf_counter()
    with (
        stop_requests(AGAIN) as stop,
        engine(workers or max(1, min(thread_count(), total // _A_WORKER))) as chosen,
        Bars(out.name) as bar,
        closing(run(chosen)) as steps,
    ):
        task = bar.add_task(out.name, total=total)
        for tally in steps:
            bar.update(task, completed=tally.scans)
            if stop.signal and tally.scans < total:
                break
    seconds = perf_counter() - begin
    _print_summary(out, tally, total, seconds)
    hint = _say_worth(first) if tally.points_out > tally.points_in else ""
    if tally.scans < total:
        remedy = "run it again to resume" if kind != "bag" or resume else "nothing was kept (--no-resume)"
        say(f"poli: interrupted after {tally.scans} of {total} scans; {remedy}", warning=True, to_stderr=True)
        raise typer.Exit(128 + (stop.signal or 2))
    return {"out": out, **vars(tally), "seconds": seconds, "hint": hint}


def _kind(data: Path, dataset: str, sequences: tuple[str, ...]) -> str:
    from poli.io.datasets import guess
    from poli.io.datasets.bags import ENDINGS

    if files.is_pipe(data):
        return "scan"
    if dataset not in _kinds():
        raise InputError(f"--dataset {dataset}: expected {', '.join(_kinds())}{did_you_mean(dataset, _kinds())}")
    if not data.exists():
        raise FormatError(f"{data}: no such file or folder")
    if data.is_file():
        return "bag" if data.suffix in ENDINGS else "scan"
    return guess(data, sequences[0] if sequences else None) if dataset == "auto" else dataset


def _densify_scan(data: Path, out: Path, config: DensifyConfig, format: str | None) -> dict[str, Any]:
    from poli.densification import densify as densify_points
    from poli.io.formats import check_ending, write

    with files.output_file(out, ".pcd") as path, busy(f"densifying {data}"):
        files.check_place(out, data, Path(config.model))
        if not files.is_pipe(out):
            check_ending(out)
        scan = files.read_scan(data, format)
        with files.naming(data):
            dense = densify_points(scan, config)
        write(dense, path)
    say(f"{out}: {files.counted(len(scan), 'point')} in, {len(dense)} out")
    hint = _say_worth(lambda: scan) if len(dense) > len(scan) else ""
    return {"out": out, "points_in": len(scan), "points_out": len(dense), "dropped": scan.dropped, "hint": hint}


# --- Terminal output.


def _say_worth(read: "Callable[[], Scan]") -> str:
    """Print a hint if denser scans are unlikely to pay for a sensor and place like this, and return it."""
    from poli.densification.densify import why_little

    hint = ""
    with suppress(PoliError, OSError):  # the result is complete; bags with odd stamps, for example, are densified but not read
        if hint := why_little(read()):
            say(f"hint: {hint}")
    return hint


def _print_summary(out: Path, tally: "Tally", total: int, seconds: float) -> None:
    say(f"{out}: {tally.scans} of {total} scans{f', {tally.kept} already done' if tally.kept else ''}")
    if tally.points_in:
        say(f"points: {tally.points_in} in, {tally.points_out} out, {tally.points_out / tally.points_in:.2f} times the points")
    if tally.unchanged:
        warnings.warn(f"{tally.unchanged} of {total} scans are unchanged. The first: {tally.why}", stacklevel=2)
    if tally.scans > tally.kept:
        say(f"time: {seconds:.1f} s, {(tally.scans - tally.kept) / max(seconds, 1e-9):.1f} scans/s")
