"""Panels as one picture, drawn without a graphics card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, sqrt

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.show.framing import camera_for
from poli.show.palette import calm_normal_colors
from poli.show.panel import Panel, Track
from poli.show.render import Camera, render_ellipsoids, render_points

_PLAIN = (0.33, 0.36, 0.40)
_UNKNOWN = (0.68, 0.70, 0.72)
_TRACKS = ((0.84, 0.37, 0.0), (0.34, 0.71, 0.91), (0.0, 0.62, 0.45), (0.80, 0.47, 0.65))
_BEADS = 2.0  # pixels: how thick a track is drawn
_GAP = 6  # pixels between panels


def draw_panels(
    panels: Sequence[Panel], sigma: float = 2.0, camera: Camera | None = None, width: int = 1600, height: int = 900
) -> np.ndarray:  # (H, W, 3) uint8
    """Panels side by side, colors by normals: ellipsoids where a panel has any, else points; tracks over both."""
    columns = ceil(sqrt(len(panels)))
    rows = ceil(len(panels) / columns)
    size = (width - _GAP * (columns - 1)) // columns, (height - _GAP * (rows - 1)) // rows
    camera = camera_for(panels, *size) if camera is None else replace(camera, width=size[0], height=size[1])
    image = np.full((height, width, 3), 255, np.uint8)
    for i, panel in enumerate(panels):
        x, y = (i % columns) * (size[0] + _GAP), (i // columns) * (size[1] + _GAP)
        image[y : y + size[1], x : x + size[0]] = _draw(panel, camera, sigma)
    return image


def _draw(panel: Panel, camera: Camera, sigma: float) -> np.ndarray:
    beads, bead_colors = _beads(panel.tracks, camera)
    if panel.field is not None and len(panel.field) and sigma > 0.0:
        colors = panel.colors if panel.colors is not None and panel.shows_means else calm_normal_colors(panel.field.normals)
        radius = sigma * panel.sigma_scale
        distance = np.linalg.norm(beads - np.array(camera.eye), axis=1)
        across = (_BEADS * distance / camera.focal / radius)[:, None, None] ** 2  # as wide everywhere on the picture
        means = np.concatenate([panel.field.means, beads])
        covariances = np.concatenate([panel.field.covariances, across * np.eye(3)])
        return render_ellipsoids(Ellipsoids.trusted(means, covariances), camera, np.concatenate([colors, bead_colors]), radius)
    colors = np.concatenate([_point_colors(panel), bead_colors])
    return render_points(np.concatenate([panel.places, beads]), camera, colors, pixels=3)


def _point_colors(panel: Panel) -> np.ndarray:  # (N, 3)
    if panel.colors is not None:
        return panel.colors
    normals = panel.place_normals
    if normals is None:
        return np.tile(_PLAIN, (len(panel.places), 1))
    return np.where(np.abs(normals).max(axis=1, keepdims=True) > 0.0, calm_normal_colors(normals), _UNKNOWN)


def _beads(tracks: Sequence[Track], camera: Camera) -> tuple[np.ndarray, np.ndarray]:  # (B, 3), (B, 3)
    """Tracks as rows of beads, near enough to each other to look like a line."""
    places, colors = [np.empty((0, 3))], [np.empty((0, 3))]
    reach = max(
        (float(np.linalg.norm(track.positions - np.array(camera.eye), axis=1).max(initial=1.0)) for track in tracks), default=1.0
    )
    step = max(reach / camera.focal, 1e-6)  # a pixel at the far end
    for i, track in enumerate(tracks):
        for a, b in zip(track.positions[:-1], track.positions[1:], strict=True):
            share = np.linspace(0.0, 1.0, min(int(np.linalg.norm(b - a) / step) + 2, 1000))[:, None]
            places.append(a + share * (b - a))
            colors.append(np.tile(track.color or _TRACKS[i % len(_TRACKS)], (len(share), 1)))
    return np.concatenate(places), np.concatenate(colors)
