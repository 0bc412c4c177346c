"""The pictures of the demo, by the package's own renderer, and its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.scan import Scan
from poli.show.demo.drive import Driven
from poli.show.demo.pair import Pair
from poli.show.demo.surfaces import Fields, NormalFigures
from poli.show.figure import headed
from poli.show.page import write_page
from poli.show.panel import Panel, flat_discs
from poli.show.panel_picture import NORMAL_COLORS
from poli.show.render import BACKGROUND, Camera, calm_normal_colors, render_ellipsoids, render_points

SIGMA = 2.0  # POLI's ellipsoids are drawn at so many standard deviations
DISC = 0.12  # meters, sigma of the discs that show true normals
CAMERA = Camera(eye=(-21.0, -2.0, 12.0), target=(8.0, 0.0, 0.0), field_of_view=62.0)  # from behind and above the sensor

_GREY, _BLUE, _ORANGE = np.array([0.35, 0.37, 0.40]), np.array([0.0, 0.447, 0.698]), np.array([0.902, 0.624, 0.0])
_PALE_BLUE = np.array([0.50, 0.73, 0.89])
_ABOVE = Camera(eye=(0.0, 0.0, 85.0), target=(0.0, 0.0, 0.0), up=(1.0, 0.0, 0.0), width=800, height=800)
_LINE = 3  # pixels
_PALE = 0.5  # of the way to white
_PAGE_CAMERA = Camera(eye=(-23.0, -2.0, 14.0), target=(8.0, 0.0, 1.5), field_of_view=64.0)  # leaves the captions some sky


def scan_pictures(fields: Fields) -> Iterator[tuple[str, np.ndarray]]:  # names and (H, W, 3) uint8
    points = render_points(fields.cloud.points, CAMERA, _one(_GREY, len(fields.cloud)), pixels=3)
    yield "points.png", headed(points, "Points", "one in each voxel, as the estimators get them")
    discs = flat_discs(fields.cloud, fields.truth, DISC)
    for name, title, field, scale in (
        ("pca", "PCA: ellipsoids of neighborhoods, drawn at POLI's size", fields.pca, fields.pca_scale),
        ("poli", f"POLI: ellipsoids at {SIGMA:g} sigma", fields.poli, 1.0),
        ("truth", "Truth: discs across the true normals; leaves have none", discs, 1.0),
    ):
        picture = render_ellipsoids(field, CAMERA, calm_normal_colors(field.normals), scale * SIGMA)
        yield f"{name}.png", headed(picture, title, NORMAL_COLORS)


def density_picture(dense: Scan, returns: int) -> np.ndarray:  # (H, W, 3) uint8
    """The scan, and the scan with its samples in blue: larger and paler than returns and behind them, so that surfaces are seen."""
    before = render_points(dense.points[:returns], CAMERA, _one(_GREY, returns))
    samples = render_points(dense.points[returns:], CAMERA, _one(_PALE_BLUE, len(dense) - returns), pixels=5)
    after = np.where((before == BACKGROUND).all(axis=2, keepdims=True), samples, before)
    return _side_by_side([headed(before, "before"), headed(after, "after: samples in blue")], axis=0)


def pair_picture(pair: Pair) -> np.ndarray:  # (H, W, 3) uint8
    """From above: both scans as they were given, and with the pose that was found."""
    colors = np.concatenate([_one(_BLUE, len(pair.target)), _one(_ORANGE, len(pair.source))])
    sides = []
    for T, title in (
        (np.eye(4), "as given"),
        (pair.T_target_source, "with the pose found; target blue, source orange"),
    ):
        together = np.concatenate([pair.target.points, pair.source.transform(T).points])
        sides.append(headed(render_points(together, _ABOVE, colors), title))
    return _side_by_side(sides, axis=1)


def drive_picture(driven: Driven) -> np.ndarray:  # (H, W, 3) uint8
    """The map of fused ellipsoids, the true way in gray, and the estimated one in blue upon it."""
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
    """A line as long ellipsoids, one between every two positions, which reach into each other."""
    along = np.diff(positions, axis=0)
    stretched = along[:, :, None] * along[:, None, :]
    return Ellipsoids.trusted(0.5 * (positions[1:] + positions[:-1]), stretched + radius**2 * np.eye(3))


def _balls(positions: np.ndarray, radius: float) -> Ellipsoids:  # (M, 3)
    return Ellipsoids.trusted(positions, np.tile(radius**2 * np.eye(3), (len(positions), 1, 1)))


def _side_by_side(pictures: list[np.ndarray], axis: int) -> np.ndarray:  # of two (H, W, 3) uint8, with a line between
    first, second = pictures
    line = np.full_like(np.take(first, range(_LINE), axis=axis), 200)
    return np.concatenate([first, line, second], axis=axis)


def _one(color: np.ndarray, count: int) -> np.ndarray:  # (3,) -> (count, 3)
    return np.tile(color, (count, 1))


# --- the page: points, PCA, POLI and the truth side by side


def write_demo_page(path: Path, fields: Fields, figures: NormalFigures) -> None:
    poli, pca = figures.poli, figures.pca
    panels = [
        Panel("Points", fields.cloud, caption=f"One in every {figures.voxel:g} m voxel"),
        Panel(
            "PCA",
            field=fields.pca,
            sigma_scale=fields.pca_scale,
            caption=f"Normals off by {pca.median:.1f}° (median); drawn smaller, at POLI's size",
        ),
        Panel(
            "POLI", field=fields.poli, caption=f"Normals off by {poli.median:.1f}° (median), {figures.lower:.0%} less than PCA's"
        ),
        Panel(
            "Truth", field=flat_discs(fields.cloud, fields.truth, DISC), caption="Discs across the true normals; leaves have none"
        ),
    ]
    note = (
        "A VLP-16's scan of a simulated town that the network never saw. "
        f"PCA's ellipsoids ({figures.pca_k} neighbors) are as wide as their neighborhoods; they are drawn smaller."
    )
    write_page(path, "A scan as ellipsoids", panels, note=note, sigma=SIGMA, theme="dark", camera=_PAGE_CAMERA)
