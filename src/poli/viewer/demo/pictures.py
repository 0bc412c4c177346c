"""The pictures and the page of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.scan import Scan
from poli.viewer.demo.drive import Driven
from poli.viewer.demo.pair import Pair
from poli.viewer.demo.surfaces import Fields, NormalFigures
from poli.viewer.page import write_page
from poli.viewer.panel import Panel, flat_discs
from poli.viewer.picture import NORMAL_COLORS, headed
from poli.viewer.render import BACKGROUND, Camera, calm_normal_colors, render_ellipsoids, render_points

SIGMA = 2.0  # standard deviations at which POLI's ellipsoids are drawn
DISC = 0.12  # meters, sigma of the discs that show true normals
CAMERA = Camera(eye=(-21.0, -2.0, 12.0), target=(8.0, 0.0, 0.0), field_of_view=62.0)  # from behind and above the sensor

_GREY, _BLUE, _ORANGE = np.array([0.35, 0.37, 0.40]), np.array([0.0, 0.447, 0.698]), np.array([0.902, 0.624, 0.0])
_PALE_BLUE = np.array([0.50, 0.73, 0.89])
_ABOVE = Camera(eye=(0.0, 0.0, 85.0), target=(0.0, 0.0, 0.0), up=(1.0, 0.0, 0.0), width=800, height=800)
_LINE = 3  # pixels
_PALE = 0.5  # blend factor towards white
_PAGE_CAMERA = Camera(eye=(-23.0, -2.0, 14.0), target=(8.0, 0.0, 1.5), field_of_view=64.0)  # leaves sky for the captions


def scan_pictures(fields: Fields) -> Iterator[tuple[str, np.ndarray]]:  # names and (H, W, 3) uint8
    points = render_points(fields.cloud.points, CAMERA, _one(_GREY, len(fields.cloud)), pixels=3)
    yield "points.png", headed(points, "Points", "one per voxel, the input of the estimators")
    discs = flat_discs(fields.cloud, fields.truth, DISC)
    for name, title, field, scale in (
        ("pca", "PCA: ellipsoids of neighborhoods, drawn at POLI's size", fields.pca, fields.pca_scale),
        ("poli", f"POLI: ellipsoids at {SIGMA:g} sigma", fields.poli, 1.0),
        ("truth", "Ground truth: discs perpendicular to the true normals; leaves have none", discs, 1.0),
    ):
        picture = render_ellipsoids(field, CAMERA, calm_normal_colors(field.normals), scale * SIGMA)
        yield f"{name}.png", headed(picture, title, NORMAL_COLORS)


def density_picture(dense: Scan, returns: int) -> np.ndarray:  # (H, W, 3) uint8
    """The scan before and after. Samples are blue, larger and paler than returns and behind them, to show surfaces."""
    before = render_points(dense.points[:returns], CAMERA, _one(_GREY, returns))
    samples = render_points(dense.points[returns:], CAMERA, _one(_PALE_BLUE, len(dense) - returns), pixels=5)
    after = np.where((before == BACKGROUND).all(axis=2, keepdims=True), samples, before)
    return _side_by_side([headed(before, "before"), headed(after, "after: samples in blue")], axis=0)


def pair_picture(pair: Pair) -> np.ndarray:  # (H, W, 3) uint8
    """Both scans from above, as given and with the estimated pose."""
    colors = np.concatenate([_one(_BLUE, len(pair.target)), _one(_ORANGE, len(pair.source))])
    sides = []
    for T, title in (
        (np.eye(4), "as given"),
        (pair.T_target_source, "with the estimated pose; target blue, source orange"),
    ):
        together = np.concatenate([pair.target.points, pair.source.transform(T).points])
        sides.append(headed(render_points(together, _ABOVE, colors), title))
    return _side_by_side(sides, axis=1)


def drive_picture(driven: Driven) -> np.ndarray:  # (H, W, 3) uint8
    """The map of fused ellipsoids, with the true path in gray and the estimated path in blue."""
    middle = driven.truth[:, :3, 3].mean(axis=0)
    eye, target = middle + [-30.0, 4.0, 48.0], middle + [3.0, 0.0, -2.0]
    camera = Camera(tuple(eye.tolist()), tuple(target.tolist()), field_of_view=62.0, height=800)
    true_way, way = _tube(driven.truth[:, :3, 3], 0.45), _balls(driven.poli[:, :3, 3] + [0.0, 0.0, 0.45], 0.3)
    parts = [driven.map, true_way, way]
    sizes = [SIGMA, 1.0, 1.0]
    colors = [_PALE + (1.0 - _PALE) * calm_normal_colors(driven.map.normals), _one(_GREY, len(true_way)), _one(_BLUE, len(way))]
    together = Ellipsoids.trusted(
        np.concatenate([part.means for part in parts]),
        np.concatenate([size**2 * part.covariances for part, size in zip(parts, sizes, strict=True)]),
    )
    picture = render_ellipsoids(together, camera, np.concatenate(colors), radius=1.0)
    return headed(picture, "Odometry", "truth gray, POLI blue, map of ellipsoids")


def _tube(positions: np.ndarray, radius: float) -> Ellipsoids:  # (M, 3)
    """A line of elongated, overlapping ellipsoids, one between each two positions."""
    along = np.diff(positions, axis=0)
    stretched = along[:, :, None] * along[:, None, :]
    return Ellipsoids.trusted(0.5 * (positions[1:] + positions[:-1]), stretched + radius**2 * np.eye(3))


def _balls(positions: np.ndarray, radius: float) -> Ellipsoids:  # (M, 3)
    return Ellipsoids.trusted(positions, np.tile(radius**2 * np.eye(3), (len(positions), 1, 1)))


def _side_by_side(pictures: list[np.ndarray], axis: int) -> np.ndarray:  # two (H, W, 3) uint8, separated by a line
    first, second = pictures
    line = np.full_like(np.take(first, range(_LINE), axis=axis), 200)
    return np.concatenate([first, line, second], axis=axis)


def _one(color: np.ndarray, count: int) -> np.ndarray:  # (3,) -> (count, 3)
    return np.tile(color, (count, 1))


# --- the page: points, PCA, POLI and the truth side by side


def write_demo_page(path: Path, fields: Fields, figures: NormalFigures) -> None:
    poli, pca = figures.poli, figures.pca
    panels = [
        Panel("Points", fields.cloud, caption=f"One per {figures.voxel:g} m voxel"),
        Panel(
            "PCA",
            field=fields.pca,
            sigma_scale=fields.pca_scale,
            caption=f"Median normal error {pca.median:.1f}°; drawn smaller, at POLI's size",
        ),
        Panel("POLI", field=fields.poli, caption=f"Median normal error {poli.median:.1f}°, {figures.lower:.0%} below PCA's"),
        Panel(
            "Truth", field=flat_discs(fields.cloud, fields.truth, DISC), caption="Discs across the true normals; leaves have none"
        ),
    ]
    note = (
        "A VLP-16 scan of a simulated town not used for training. "
        f"PCA's ellipsoids ({figures.pca_k} neighbors) are as wide as their neighborhoods and drawn smaller here."
    )
    write_page(path, "A scan as ellipsoids", panels, note=note, sigma=SIGMA, theme="dark", camera=_PAGE_CAMERA)
