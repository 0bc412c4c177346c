"""`poli register`: find the pose between two clouds of the same object or place."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poli.cli.output import answer, busy, say
from poli.cli.scan_files import ScanFormat, check_count, check_place, is_pipe, read_scan


def _presets() -> list[str]:
    from poli.tasks.scan_registration import PRESETS

    return list(PRESETS)


def register(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A point cloud file; -: standard input.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Another point cloud file, of the same object or place.")],
    preset: Annotated[
        str | None,
        typer.Option(
            help="For scans of a place: the sensor (vlp16, hdl32e, hdl64e, os1_64 or os2_128). Default: objects.",
            autocompletion=_presets,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the 4x4 matrix T_target_source to this text file.")] = None,
    feature_radius: Annotated[float | None, typer.Option(help="Smallest feature radius; objects: 0.3 of their radius.")] = None,
    noise_bound: Annotated[
        float | None, typer.Option(help="Maximum distance between matching points; objects: 0.05 of their radius.")
    ] = None,
    format: ScanFormat = None,
) -> dict[str, Any]:
    """Find the pose between two clouds of one object, or two scans of one place, without an initial guess.

    Objects should have a few hundred to a few thousand points. Scans must be in the
    sensor frame, with the sensor at the origin, and need --preset.
    The 4x4 matrix T_target_source is printed to standard output, messages to stderr.

    Examples:
    poli register part_a.ply part_b.ply > pose.txt
    poli register 000010.bin 000020.bin --preset hdl64e
    poli register part_a.ply part_b.ply --out pose.txt --quiet
    poli register part_a.ply part_b.ply --json
    """
    import numpy as np

    from poli.errors import DegenerateError, InputError
    from poli.files.atomic import atomic_path
    from poli.se3 import log

    if is_pipe(source) and is_pipe(target):
        raise InputError("-: standard input holds one cloud; give the other as a file")
    if out is not None:
        check_place(out, source, target)
    with busy(f"registering {source} to {target}"):
        from poli.tasks import register as solve

        clouds = []
        for path in (source, target):
            clouds.append(read_scan(path, format))
            check_count(clouds[-1], path, "objects" if preset is None else "lidar")
        try:
            result = solve(*clouds, preset=preset, feature_radius=feature_radius, noise_bound=noise_bound)
        except (InputError, DegenerateError) as error:
            error.about(f"{source} and {target}")
            raise
    lines = "\n".join(" ".join(f"{value:.9g}" for value in row) for row in result.T_target_source)
    if out is not None:
        with atomic_path(out) as file:
            file.write_text(lines + "\n")
    answer(lines)
    turn, shift = np.degrees(np.linalg.norm(log(result.T_target_source)[:3])), np.linalg.norm(result.T_target_source[:3, 3])
    proven = "certified" if result.certified else "NOT certified"
    say(f"T_target_source: {source} in the frame of {target}, rotation {turn:.1f} degrees, translation {shift:.3g}")
    say(f"overlap {result.overlap:.0%}, agreement {result.agreement:.0%}; {proven} optimal for its {len(result.inliers)} inliers")
    return {
        "T_target_source": result.T_target_source,
        "inliers": len(result.inliers),
        "overlap": result.overlap,
        "agreement": result.agreement,
        "certified": result.certified,
        "out": out,
    }
