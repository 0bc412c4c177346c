"""Pictures of `python -m benchmarks geometry`: a scan, its ellipsoids by PCA and POLI, and the truth, side by side; and each sensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.data.held_out import HeldOut, held_out_pairs
from poli.data.simulate import SENSORS
from poli.ellipsoids import Ellipsoids
from poli.estimation import estimate, pca
from poli.show import Camera, normal_colors, render_ellipsoids, render_points, write_png

_SIZE = {"width": 960, "height": 600}
_PLACE = "town"
_VOXEL = 0.5


def draw(model: str, out: Path) -> None:
    """`geometry_sides.png`: points, PCA, POLI, truth of a 16-beam scan. `geometry_sensors.png`: POLI, one panel a sensor."""
    scans = {scan.sensor: scan for scan in held_out_pairs(list(SENSORS), spots=1, places=(_PLACE,))}
    camera = Camera(eye=(-16.0, -3.0, 9.0), target=(10.0, 1.0, -1.0), field_of_view=60.0, **_SIZE)  # type: ignore[arg-type]
    write_png(out / "geometry_sides.png", _grid([_sides(scans["vlp16"], model, camera)[i : i + 2] for i in (0, 2)]))
    panels = [_ellipsoids(estimate(scan.cloud(_VOXEL), model), camera, 2.0) for scan in scans.values()]
    panels.append(np.full_like(panels[0], 250))
    write_png(out / "geometry_sensors.png", _grid([panels[i : i + 2] for i in range(0, len(panels), 2)]))


def _sides(scan: HeldOut, model: str, camera: Camera) -> list[np.ndarray]:
    cloud, truth = scan.cloud(_VOXEL), scan.normals(_VOXEL)
    known = np.isfinite(truth[:, 0])
    grey = np.full((len(cloud), 3), 0.35)
    flat = Ellipsoids.trusted(cloud.points[known].astype(np.float64), _discs(truth[known], 0.12))
    return [
        render_points(cloud.points, camera, grey, pixels=3),
        # PCA's ellipsoids are as wide as the neighbourhood they come from; drawn at about the size of POLI's.
        _ellipsoids(pca(cloud, k=16), camera, 0.5),
        _ellipsoids(estimate(cloud, model), camera, 2.0),
        _ellipsoids(flat, camera, 2.0),
    ]


def _ellipsoids(field: Ellipsoids, camera: Camera, radius: float) -> np.ndarray:
    return render_ellipsoids(field, camera, normal_colors(field.normals), radius)


def _discs(normals: np.ndarray, sigma: float) -> np.ndarray:  # (N, 3) -> (N, 3, 3)
    """Flat ones that show a direction and claim nothing else."""
    return sigma**2 * (np.eye(3) - 0.99 * normals[:, :, None] * normals[:, None, :])


def _grid(rows: list[list[np.ndarray]]) -> np.ndarray:
    return np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)
