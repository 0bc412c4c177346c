"""Render panels into one picture, without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.show.figure import Key, heading
from poli.show.framing import camera_for, grid_of, point_size
from poli.show.panel import Panel, Track
from poli.show.render import BACKGROUND, Camera, calm_normal_colors, render_ellipsoids, render_points

_PLAIN = (0.33, 0.36, 0.40)
_UNKNOWN = (0.68, 0.70, 0.72)
_TRACKS = ((0.84, 0.37, 0.0), (0.34, 0.71, 0.91), (0.0, 0.62, 0.45), (0.80, 0.47, 0.65))
_BEADS = 2.0  # pixels, width of a track
_GAP = 6  # pixels between panels
_BETWEEN = 228  # gray value of the gaps
NORMAL_COLORS = "colors: direction of the normal; pale: up"


def draw_panels(
    panels: Sequence[Panel], sigma: float = 2.0, camera: Camera | None = None, width: int = 1600, height: int = 900
) -> np.ndarray:  # (H, W, 3) uint8
    """Draw panels side by side, each below its name and caption: ellipsoids if it has any, otherwise points; tracks on top."""
    foot = heading("", NORMAL_COLORS, width) if any(map(_colored_by_normals, panels)) else np.empty((0, width, 3), np.uint8)
    grid = grid_of(len(panels), width, height - len(foot), _GAP)
    heads = [heading(panel.name, panel.caption, grid.width, _keys(panel)) for panel in panels]
    above = max(map(len, heads))  # pixels; equal for all panels, so that they share a camera
    below = max(grid.height - above, 1)
    camera = camera_for(panels, grid.width, below) if camera is None else replace(camera, width=grid.width, height=below)
    image = np.full((height, width, 3), _BETWEEN, np.uint8)
    for i, (panel, head) in enumerate(zip(panels, heads, strict=True)):
        x, y = (i % grid.columns) * (grid.width + _GAP), (i // grid.columns) * (grid.height + _GAP)
        place = image[y : y + grid.height, x : x + grid.width]
        place[:] = BACKGROUND
        place[: len(head)] = head[: len(place)]
        place[above:] = _draw(panel, camera, sigma)[: max(len(place) - above, 0)]
    image[height - len(foot) :] = foot
    return image


def _colored_by_normals(panel: Panel) -> bool:
    return panel.colors is None and (panel.field is not None or panel.normals is not None)


def _keys(panel: Panel) -> list[Key]:
    return [(track.name, _track_color(track, i)) for i, track in enumerate(panel.tracks)]


def _track_color(track: Track, number: int) -> tuple[float, float, float]:
    return track.color or _TRACKS[number % len(_TRACKS)]


def _draw(panel: Panel, camera: Camera, sigma: float) -> np.ndarray:
    beads, bead_colors = _beads(panel.tracks, camera)
    if panel.field is not None and len(panel.field) and sigma > 0.0:
        colors = panel.colors if panel.colors is not None and panel.shows_means else calm_normal_colors(panel.field.normals)
        radius = sigma * panel.sigma_scale
        distance = np.linalg.norm(beads - np.array(camera.eye), axis=1)
        across = (_BEADS * distance / camera.focal / radius)[:, None, None] ** 2  # constant width in the picture
        means = np.concatenate([panel.field.means, beads])
        covariances = np.concatenate([panel.field.covariances, across * np.eye(3)])
        return render_ellipsoids(Ellipsoids.trusted(means, covariances), camera, np.concatenate([colors, bead_colors]), radius)
    beads, bead_colors = _widened(beads, camera), np.repeat(bead_colors, 9, axis=0)
    colors = np.concatenate([_point_colors(panel), bead_colors])
    return render_points(np.concatenate([panel.places, beads]), camera, colors, pixels=round(point_size(len(panel.places))))


def _widened(beads: np.ndarray, camera: Camera) -> np.ndarray:  # (B, 3) -> (9 B, 3)
    """Each bead as a square of nine, a pixel apart: points of large clouds are drawn a pixel wide, too narrow for a line."""
    pixel = np.linalg.norm(beads - np.array(camera.eye), axis=1)[:, None, None] / camera.focal
    shifts = np.array([x * camera.axes[0] + y * camera.axes[1] for x in (-1, 0, 1) for y in (-1, 0, 1)])  # (9, 3)
    return (beads[:, None] + pixel * shifts).reshape(-1, 3)


def _point_colors(panel: Panel) -> np.ndarray:  # (N, 3)
    if panel.colors is not None:
        return panel.colors
    normals = panel.place_normals
    if normals is None:
        return np.tile(_PLAIN, (len(panel.places), 1))
    return np.where(np.abs(normals).max(axis=1, keepdims=True) > 0.0, calm_normal_colors(normals), _UNKNOWN)


def _beads(tracks: Sequence[Track], camera: Camera) -> tuple[np.ndarray, np.ndarray]:  # (B, 3), (B, 3)
    """Tracks as rows of beads, close enough to look like a line."""
    places, colors = [np.empty((0, 3))], [np.empty((0, 3))]
    reach = max(
        (float(np.linalg.norm(track.positions - np.array(camera.eye), axis=1).max(initial=1.0)) for track in tracks), default=1.0
    )
    step = max(reach / camera.focal, 1e-6)  # one pixel at the far end
    for i, track in enumerate(tracks):
        for a, b in zip(track.positions[:-1], track.positions[1:], strict=True):
            share = np.linspace(0.0, 1.0, min(int(np.linalg.norm(b - a) / step) + 2, 1000))[:, None]
            places.append(a + share * (b - a))
            colors.append(np.tile(_track_color(track, i), (len(share), 1)))
    return np.concatenate(places), np.concatenate(colors)
