"""`poli register`: find the pose between two clouds of the same object or place."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.commands import spelled
from poli.cli.output import answer, busy, say
from poli.cli.scan_files import ScanFormat, check_count, check_place, counted, is_pipe, read_scan
from poli.errors import FormatError

if TYPE_CHECKING:
    from poli.registration import Registration
    from poli.scan import Scan


def _presets() -> list[str]:
    from poli.registration.presets import AUTO, OBJECTS, PRESETS

    return [AUTO, OBJECTS, *PRESETS]


def register(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A point cloud file; -: standard input.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Another point cloud file, of the same object or place.")],
    preset: Annotated[
        str,
        typer.Option(
            help="objects; for scans of a place, the sensor (vlp16, hdl32e, hdl64e, os1_64 or os2_128) or indoor; "
            "auto: chosen from the clouds.",
            autocompletion=_presets,
        ),
    ] = "auto",
    tilted: Annotated[
        bool, typer.Option("--tilted", help="Scans: consider poses that tip the vertical by more than 45 degrees.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the 4x4 matrix T_target_source to this text file.")] = None,
    out_cloud: Annotated[
        Path | None, typer.Option(help="Write SOURCE in the frame of TARGET, with its fields, to this point cloud file.")
    ] = None,
    feature_radius: Annotated[
        float | None, typer.Option(help="Smallest feature radius. Scans: meters; objects: units of the file, 0.3 of their radius.")
    ] = None,
    noise_bound: Annotated[
        float | None,
        typer.Option(
            help="Maximum distance between matching points. Scans: meters; objects: units of the file, 0.05 of their radius."
        ),
    ] = None,
    format: ScanFormat = None,
) -> dict[str, Any]:
    """Find the pose between two clouds of one object, or two scans of one place, without an initial guess.

    Objects should have a few hundred to a few thousand points. Scans must be in the
    sensor frame, with the sensor at the origin and its z axis up (or --tilted).
    The 4x4 matrix T_target_source is printed to standard output, messages to stderr.

    Any two scans have a best pose. For scans, the probability that it is right is
    reported, and "probably wrong" if it is below 50 %; the exit code is 0 either way.
    "Certified" is something else: no pose fits the chosen inliers better.

    Examples:
    poli register part_a.ply part_b.ply > pose.txt
    poli register 000010.bin 000020.bin --out-cloud moved.ply
    poli register 000010.bin 000020.bin --preset hdl64e --json
    poli register room_a.pcd room_b.pcd --preset indoor --out pose.txt --quiet
    """
    from poli.errors import DegenerateError, InputError
    from poli.io.atomic import atomic_path

    _check_files(source, target, out, out_cloud)
    with busy(f"registering {source} to {target}"):
        from poli.registration import register as solve
        from poli.registration.presets import AUTO, OBJECTS, choose_preset

        clouds = [read_scan(path, format) for path in (source, target)]
        if out_cloud is not None:
            _try_cloud(clouds[0], out_cloud)
        chosen = choose_preset(*clouds) if preset == AUTO else preset
        for cloud, path in zip(clouds, (source, target), strict=True):
            check_count(cloud, path, "objects" if chosen == OBJECTS else "lidar")
        try:
            result = solve(*clouds, preset=chosen, upright=not tilted, feature_radius=feature_radius, noise_bound=noise_bound)
        except (InputError, DegenerateError) as error:
            error.about(f"{source} and {target}")
            if error.argument == "upright":
                error.respell("--tilted", "--tilted")
            raise
    lines = "\n".join(" ".join(f"{value:.9g}" for value in row) for row in result.T_target_source)
    if out is not None:
        with atomic_path(out) as file:
            file.write_text(lines + "\n")
    if out_cloud is not None:
        _write_cloud(clouds[0].transform(result.T_target_source), out_cloud)
    answer(lines)
    if preset == AUTO:
        say(f"preset: {chosen} (chosen from the clouds; --preset overrides)")
    _describe(result, f"{source} in the frame of {target}", "the units of the files" if chosen == OBJECTS else "m")
    if out_cloud is not None:
        say(f"{out_cloud}: {counted(len(clouds[0]), 'point')} of {source} in the frame of {target}")
    return {
        "T_target_source": result.T_target_source,
        "probability": result.probability,
        "inliers": len(result.inliers),
        "overlap": result.overlap,
        "agreement": result.agreement,
        "certified": result.certified,
        "preset": chosen,
        "out": out,
        "out_cloud": out_cloud,
    }


def _check_files(source: Path, target: Path, out: Path | None, out_cloud: Path | None) -> None:
    from poli.errors import InputError
    from poli.io.atomic import same_file
    from poli.io.formats import check_ending

    if is_pipe(source) and is_pipe(target):
        raise InputError("-: standard input holds one cloud; give the other as a file")
    if out_cloud is not None:
        if is_pipe(out_cloud):
            raise InputError("--out-cloud is -; standard output carries the pose; give a file name")
        with spelled(format=None):  # --format is that of the inputs
            check_ending(out_cloud)
        if out is not None and same_file(out, out_cloud):
            raise InputError(f"{out}: --out and --out-cloud are the same file; choose another name for one of them")
    for path in (out, out_cloud):
        if path is not None:
            check_place(path, source, target)


def _try_cloud(source: "Scan", out: Path) -> None:
    """Raise the error of a format that cannot store the fields of the source before the search, not after it."""
    from poli.io.atomic import temporary_folder

    with temporary_folder() as folder:
        try:
            _write_cloud(source, folder / out.name)
        except FormatError as error:
            raise FormatError(str(error).replace(str(folder / out.name), str(out))) from None


def _write_cloud(cloud: "Scan", out: Path) -> None:
    from poli.io.formats import write

    with spelled(**{"format": None, "scan.keep(...)": None}):  # --format is that of the inputs
        write(cloud, out)


def _describe(result: "Registration", what: str, unit: str) -> None:
    import numpy as np

    from poli.se3 import log

    turn, shift = np.degrees(np.linalg.norm(log(result.T_target_source)[:3])), np.linalg.norm(result.T_target_source[:3, 3])
    say(f"T_target_source: {what}, rotation {turn:.1f} degrees, translation {shift:.3g} {unit}")
    proven = "certified" if result.certified else "NOT certified"
    say(f"overlap {result.overlap:.0%}, agreement {result.agreement:.0%}; {proven} optimal for its {len(result.inliers)} inliers")
    if result.probability is not None:
        verdict = "probably wrong" if result.probability < 0.5 else "probably right"
        shown = f"{result.probability:.0%}" if 0.01 <= result.probability <= 0.99 else "<1%" if result.probability < 0.5 else ">99%"
        say(f"probability that the pose is right: {shown}, {verdict}", warning=result.probability < 0.5)
