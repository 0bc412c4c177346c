"""`poli demo`: see it work in a minute, with nothing but the package."""

from pathlib import Path
from typing import Annotated, Any

import typer

_CREATURE = 3_000_009  # of our own shapes, and none that the shipped model was trained on: a winged one on four legs
_POINTS = 1000
_TOWN = 2_000_003  # kept for evaluation, as all from two million on
_VOXEL = 0.5  # metres


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and files; made if needed.")] = Path("demo_output"),
    seed: Annotated[int, typer.Option(help="Which town to build.")] = _TOWN,
) -> dict[str, Any]:
    """Ellipsoids of a creature by the trained network and by PCA, its pose, and ellipsoids of scans of a simulated town; all drawn.

    Examples:
    poli demo
    poli demo --out pictures --seed 2000004
    """
    out.mkdir(parents=True, exist_ok=True)
    written = _creature(out) + _town(out, seed)
    typer.echo(f"Pictures, scans and ellipsoids are in {out}:")
    for file in written:
        typer.echo(f"  {out / file}")
    return {"out": out, "files": [out / file for file in written]}


def _creature(out: Path) -> list[str]:
    import numpy as np

    from poli import se3
    from poli.data.shapes import procedural_mesh
    from poli.estimation import estimate, pca
    from poli.show import Camera, normal_colors, render_ellipsoids, write_png
    from poli.tasks import register

    rng = np.random.default_rng(0)
    mesh = procedural_mesh(_CREATURE)
    points, truth = mesh.sample(_POINTS, rng)
    camera = Camera(eye=(-1.1, -2.4, 0.7), target=(0.0, 0.0, 0.0), width=900, height=900, field_of_view=42.0)
    written = []
    # PCA's ellipsoids are as wide as the neighbourhood they come from; drawn at about the same size, directions can be compared.
    for name, field, radius in (("poli", estimate(points, model="objects"), 3.0), ("pca", pca(points, k=12), 1.0)):
        outward = field.oriented_normals(points.mean(axis=0), away=True)
        angle = _angles(outward, truth)
        typer.echo(
            f"creature, {_POINTS} points: {name} normals off by {np.median(angle):.1f} degrees (median), "
            f"{(angle < 10).mean():.0%} within 10 degrees"
        )
        write_png(out / f"creature_{name}.png", render_ellipsoids(field, camera, normal_colors(outward), radius))
        field.write_splat(out / f"creature_{name}_splats.ply")
        written += [f"creature_{name}.png", f"creature_{name}_splats.ply"]
    T_true = se3.exp(np.array([0.6, -0.4, 0.5, 0.2, 0.1, -0.3]))
    source = mesh.sample(_POINTS, rng)[0]
    result = register(source, points @ T_true[:3, :3].T + T_true[:3, 3])
    error = se3.log(se3.inverse(T_true) @ result.T_target_source)
    typer.echo(
        f"creature, turned by 50 degrees and drawn anew: registered to {np.degrees(np.linalg.norm(error[:3])):.2f} degrees with "
        f"{len(result.inliers)} inliers, {'certified' if result.certified else 'not certified'}"
    )
    return written


def _town(out: Path, seed: int) -> list[str]:
    import numpy as np

    from poli.data.formats import write
    from poli.data.simulate import SENSORS, scan_of
    from poli.data.simulate.truth import true_normals
    from poli.estimation import estimate, pca
    from poli.show import Camera, normal_colors, render_ellipsoids, render_points, write_png
    from poli.voxels import voxel_downsample

    camera = Camera(eye=(-16.0, -3.0, 9.0), target=(10.0, 1.0, -1.0), field_of_view=60.0)
    written = []
    for name, beams in (("vlp16", 16), ("hdl64e", 64)):
        raw = scan_of("town", SENSORS[name], seed)
        scan, truth = voxel_downsample(raw, _VOXEL), true_normals(raw, _VOXEL)
        known = np.isfinite(truth[:, 0])
        # PCA's ellipsoids are as wide as the neighbourhood they come from; drawn at about the size of the network's.
        for kind, field, radius in (("poli", estimate(scan), 2.0), ("pca", pca(scan, k=16), 0.5)):
            angle = _angles(field.normals[known], truth[known])
            typer.echo(
                f"town, {beams} beams, {len(scan)} points: {kind} normals off by {np.median(angle):.1f} degrees (median), "
                f"{(angle < 10).mean():.0%} within 10 degrees"
            )
            write_png(out / f"{name}_{kind}.png", render_ellipsoids(field, camera, radius=radius))
            field.write_splat(out / f"{name}_{kind}_splats.ply")
            written += [f"{name}_{kind}.png", f"{name}_{kind}_splats.ply"]
        write_png(out / f"{name}_points.png", render_points(scan.points, camera, normal_colors(np.nan_to_num(truth)), pixels=3))
        write(scan, out / f"{name}.pcd")
        written += [f"{name}_points.png", f"{name}.pcd"]
    return written


def _angles(normals, truth):  # (N, 3), (N, 3) -> (N,)
    """Degrees between them, without regard to sign."""
    import numpy as np

    return np.degrees(np.arccos(np.clip(np.abs(np.einsum("ij,ij->i", normals, truth)), 0.0, 1.0)))
