"""`poli register`: find the pose between two clouds of the same object or place."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli import inputs as files
from poli.cli.commands import Only
from poli.cli.output import answer, busy, say
from poli.configs import RegisterConfig
from poli.errors import DegenerateError, InputError

if TYPE_CHECKING:
    from poli.registration import Registration


def register(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A point cloud file; -: standard input.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Another point cloud file, of the same object or place.")],
    config: Annotated[RegisterConfig, Only(preset="auto")],
    out: Annotated[Path | None, typer.Option(help="Write the 4x4 matrix T_target_source to this text file.")] = None,
    out_cloud: Annotated[Path | None, typer.Option(help="Write SOURCE in the frame of TARGET to this point cloud file.")] = None,
    format: files.ScanFormat = None,
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
    from poli.io.atomic import atomic_path
    from poli.io.formats import write

    _check_files(source, target, out, out_cloud)
    with busy(f"registering {source} to {target}"):
        from poli.registration import register as solve
        from poli.registration.presets import AUTO, OBJECTS, choose_preset

        clouds = [files.read_scan(path, format) for path in (source, target)]
        chosen = choose_preset(*clouds) if config.preset == AUTO else config.preset
        try:
            result = solve(*clouds, **{**vars(config), "preset": chosen})
        except (InputError, DegenerateError) as error:
            error.about(f"{source} and {target}")
            raise
    lines = "\n".join(" ".join(f"{value:.9g}" for value in row) for row in result.T_target_source)
    if out is not None:
        with atomic_path(out) as file:
            file.write_text(lines + "\n")
    answer(lines)
    if config.preset == AUTO:
        say(f"preset: {chosen} (chosen from the clouds; --preset overrides)")
    _describe(result, f"{source} in the frame of {target}", "the units of the files" if chosen == OBJECTS else "m")
    if out_cloud is not None:
        write(clouds[0].transform(result.T_target_source), out_cloud)
        say(f"{out_cloud}: {files.counted(len(clouds[0]), 'point')} of {source} in the frame of {target}")
    told = {name: getattr(result, name) for name in ("T_target_source", "probability", "overlap", "agreement", "certified")}
    return {**told, "inliers": len(result.inliers), "preset": chosen, "out": out, "out_cloud": out_cloud}


def _check_files(source: Path, target: Path, out: Path | None, out_cloud: Path | None) -> None:
    from poli.io.atomic import same_file
    from poli.io.formats import check_ending

    if files.is_pipe(source) and files.is_pipe(target):
        raise InputError("-: standard input holds one cloud; give the other as a file")
    if out_cloud is not None:
        if files.is_pipe(out_cloud):
            raise InputError("--out-cloud is -; standard output carries the pose; give a file name")
        check_ending(out_cloud)
        if out is not None and same_file(out, out_cloud):
            raise InputError(f"{out}: --out and --out-cloud are the same file; choose another name for one of them")
    for path in (out, out_cloud):
        if path is not None:
            files.check_place(path, source, target)


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
