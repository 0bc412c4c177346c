"""`poli demo`: see it work in a minute, with nothing but the package."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and files; made if needed.")] = Path("demo_output"),
    seed: Annotated[int, typer.Option(help="Which street to build.")] = 1,
) -> None:
    """Scan a simulated street with 16 and with 64 beams, estimate ellipsoids by PCA, and draw them.

    Example: poli demo --out pictures
    """
    import numpy as np

    from poli.data.formats import write
    from poli.data.simulate import SENSORS, simulate_scan, small_street
    from poli.estimation import pca
    from poli.show import Camera, normal_colors, render_ellipsoids, render_points, write_png

    out.mkdir(parents=True, exist_ok=True)
    scene, T_world_sensor = small_street(seed), np.eye(4)
    T_world_sensor[2, 3] = 1.8
    camera = Camera(eye=(-14.0, -9.0, 9.0), target=(6.0, 1.0, -1.0))
    written = []
    for name, beams in (("vlp16", 16), ("hdl64e", 64)):
        scan = simulate_scan(scene, SENSORS[name], T_world_sensor, seed=seed)
        field = pca(scan, k=24)
        truth = scan.fields["normal"]
        angle = np.degrees(np.arccos(np.clip(np.abs(np.einsum("ij,ij->i", truth, field.normals)), 0.0, 1.0)))
        typer.echo(
            f"{beams} beams: {len(scan)} points; PCA normals off by {np.median(angle):.1f} degrees (median), "
            f"{(angle < 10).mean():.0%} within 10 degrees; planarity {np.median(field.planarity):.2f} (median)"
        )
        write_png(out / f"{name}_points.png", render_points(scan.points, camera, normal_colors(truth)))
        write_png(out / f"{name}_ellipsoids.png", render_ellipsoids(field, camera))
        write(scan, out / f"{name}.pcd")
        field.write_ply(out / f"{name}_ellipsoids.ply")
        field.write_splat(out / f"{name}_splats.ply")
        written += [f"{name}_points.png", f"{name}_ellipsoids.png", f"{name}.pcd", f"{name}_ellipsoids.ply", f"{name}_splats.ply"]
    typer.echo(f"Pictures, scans and ellipsoids are in {out}:")
    for file in written:
        typer.echo(f"  {out / file}")
