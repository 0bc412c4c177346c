"""`poli register`: two clouds of one object or place in, the pose between them out."""

from pathlib import Path
from typing import Annotated

import typer


def register(
    source: Annotated[Path, typer.Argument(help="A point cloud file.")],
    target: Annotated[Path, typer.Argument(help="Another, of the same object or place.")],
    preset: Annotated[
        str | None, typer.Option(help="Scans of a place: their sensor, vlp16, hdl32e, hdl64e, os1_64 or os2_128. None: an object.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the 4x4 matrix T_target_source to this text file.")] = None,
    feature_radius: Annotated[float | None, typer.Option(help="Of the smallest features; objects: 0.3 of the radius.")] = None,
    noise_bound: Annotated[
        float | None, typer.Option(help="How far apart points of one surface may be; objects: 0.05 of the radius.")
    ] = None,
) -> None:
    """The pose between two clouds of one object, or two scans of one place, however they are turned. No first guess.

    Objects have some hundred to a few thousand points. Scans are given as the
    sensor made them, with itself at the origin, and need a preset.

    Examples: poli register part_a.ply part_b.ply --out pose.txt
              poli register 000010.bin 000020.bin --preset hdl64e
    """
    import numpy as np

    from poli.data import read
    from poli.files.atomic import atomic_path
    from poli.tasks import register as solve

    result = solve(read(source), read(target), preset=preset, feature_radius=feature_radius, noise_bound=noise_bound)
    lines = "\n".join(" ".join(f"{value:.9g}" for value in row) for row in np.asarray(result.T_target_source))
    typer.echo(lines)
    typer.echo(
        f"{len(result.inliers)} inliers, overlap {result.overlap:.0%}, {'certified' if result.certified else 'NOT certified'}",
        err=True,
    )
    if out is not None:
        with atomic_path(out) as temporary:
            temporary.write_text(lines + "\n")
