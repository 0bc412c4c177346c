"""Render panels into one picture, without a GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import sqrt
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from poli.errors import InputError
from poli.io.atomic import atomic_path
from poli.viewer.panel import Color, Panel, Track
from poli.viewer.render import BACKGROUND, Camera, normal_colors, render_ellipsoids, render_points

# --- Picture files: PNG by Pillow, with headings above pictures.


Key = tuple[str, Color]  # a name, and its color in the picture

LINE = 22  # pixels, height of a line of text
_FONT_SIZE = 18  # pixels
_BASELINE = 17  # pixels below the upper edge of a line
_INK, _SOFT = (0.10, 0.12, 0.15), (0.36, 0.39, 0.43)
_EDGE = 12  # pixels, margin around the text
_SWATCH = 18, 6  # pixels, width and height of the color of a key
_HEADING_GAP = 8  # pixels between a key's color and its name; twice that between keys


def write_png(path: str | os.PathLike[str], image: np.ndarray) -> None:  # (H, W, 3) uint8
    """Write a PNG file. Equal images give identical files."""
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        raise InputError(f"image has shape {image.shape} and type {image.dtype}; expected (H, W, 3) of uint8, not empty")
    with atomic_path(path) as temporary:
        Image.fromarray(image).save(temporary, format="PNG", compress_level=6)


def heading(title: str, words: str, width: int, keys: Sequence[Key] = ()) -> np.ndarray:  # (h, width, 3) uint8
    """Draw a title, a wrapped text, and a line of color keys."""
    lines = wrapped(words, width - 2 * _EDGE)
    count = bool(title) + len(lines) + bool(keys)
    image = Image.new("RGB", (width, _EDGE + count * LINE + _EDGE // 2), BACKGROUND)
    draw = ImageDraw.Draw(image)
    row = _EDGE
    for text, color in ([(title, _INK)] if title else []) + [(line, _SOFT) for line in lines]:
        draw.text((_EDGE, row + _BASELINE), text, _bytes(color), _font(), anchor="ls")
        row += LINE
    column = _EDGE
    for name, color in keys:
        top = row + (LINE - _SWATCH[1]) // 2
        draw.rectangle((column, top, column + _SWATCH[0] - 1, top + _SWATCH[1] - 1), _bytes(color))
        draw.text((column + _SWATCH[0] + _HEADING_GAP, row + _BASELINE), name, _bytes(_SOFT), _font(), anchor="ls")
        column += _SWATCH[0] + _HEADING_GAP + text_width(name) + 2 * _HEADING_GAP
    return np.array(image)


def wrapped(text: str, width: int) -> list[str]:
    """Break a text at its spaces into lines of at most `width` pixels; a longer word gets a separate line."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def text_width(text: str) -> int:
    """The width of a text in pixels."""
    return round(_font().getlength(text))


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(_FONT_SIZE)  # bundled with Pillow: pictures look the same on every system


def _bytes(color: Color) -> tuple[int, int, int]:
    red, green, blue = (round(255.0 * part) for part in color)
    return red, green, blue


# --- Layout of panels: their grid, point size, and a camera that sees all of them.


_BEHIND = -0.92, -0.39  # from the target to the eye, seen from above: behind, a little to the right
_STEEPNESS = 30.0, 40.0, 50.0  # degrees above the horizon
# The camera shows all of a place: near surfaces have most of the points, so cells count, not points. Of a scan's few far returns,
# cells that hold almost nothing are left out, and so is what lies farther away than a multiple of the median over the cells.
_CELL = 0.25  # edge of a cell, relative to the distance from the center within which `_MOST` of the points are
_MOST = 80.0  # percent
_LEAST = 4  # points of a cell, for `_FEW` points
_REACH = 3.0
_ROOM = 1.05
_FEW = 20_000  # points are enough to fit the camera

# Constants of the grid; keep in sync with `static/layout.js`.
_WIDEST, _NARROWEST = 2.2, 0.75  # width / height: a panel does not use space beyond these

_LARGEST, _SMALLEST = 3.0, 1.0  # pixels, size of a point
_MANY = 15_000  # points drawn at the largest size


class Grid(NamedTuple):
    """The cells of a picture or page."""

    columns: int
    width: int  # pixels, of a panel
    height: int


def grid_of(count: int, width: int, height: int, gap: int) -> Grid:
    """The grid of `count` panels that wastes the fewest pixels on empty cells and on panels that are too wide or too narrow."""
    grids = []
    for columns in range(1, count + 1):
        rows = -(-count // columns)
        grids.append(Grid(columns, (width - gap * (columns - 1)) // columns, (height - gap * (rows - 1)) // rows))
    return max(grids, key=lambda g: min(g.width, _WIDEST * g.height) * min(g.height, g.width / _NARROWEST))


def point_size(count: int) -> float:
    """Point size in half pixels. Clouds of more than `_MANY` points get smaller points, to cover the same area in total."""
    size = _LARGEST * sqrt(_MANY / max(count, _MANY))
    return max(round(2.0 * size) / 2.0, _SMALLEST)


def camera_for(panels: Sequence[Panel], width: int = 1280, height: int = 720, sky: float = 0.0) -> Camera:
    """A camera behind and above that fits all panels, z up; `sky` is the share of the height left free at the top.

    Tries several elevations and takes the one that gets the eye closest: a flat scan fills a tall picture best from above.
    """
    parts = [part[:: len(part) // _FEW + 1] for panel in panels for part in panel.everything]
    places = np.concatenate(parts or [np.zeros((1, 3))])
    shown = _occupied(places)
    middle = 0.5 * (shown.min(axis=0) + shown.max(axis=0))
    views = [_view(shown, middle, np.deg2rad(steep), width, height, sky) for steep in _STEEPNESS]
    return min(views, key=lambda view: np.linalg.norm(np.subtract(view.eye, view.target)))


def _occupied(places: np.ndarray) -> np.ndarray:  # (N, 3) -> (n, 3)
    """The corners of what the points of each occupied cell span: the shape of a place, however unevenly it was seen."""
    middle = np.median(places, axis=0)
    away = np.linalg.norm(places - middle, axis=1)
    edge = _CELL * float(np.percentile(away, _MOST))
    if not edge > 0.0:
        return places
    cells, which, counts = np.unique(
        np.floor((places - middle) / edge).clip(-1e9, 1e9), axis=0, return_inverse=True, return_counts=True
    )
    kept = counts >= max(1, round(_LEAST * min(len(places) / _FEW, 1.0)))
    distance = np.linalg.norm(cells + 0.5, axis=1)
    kept &= distance <= _REACH * np.median(distance[kept])
    low, high = np.full((len(cells), 3), np.inf), np.full((len(cells), 3), -np.inf)
    np.minimum.at(low, which.reshape(-1), places)
    np.maximum.at(high, which.reshape(-1), places)
    return np.concatenate([low[kept], high[kept]])


def _view(places: np.ndarray, middle: np.ndarray, steepness: float, width: int, height: int, sky: float) -> Camera:
    """The nearest camera of a given elevation that sees all places.

    On each axis of the picture, a point at x across and z ahead is between the edges, with slopes `before` and `after`, if
    -before (z + distance) <= x - shift <= after (z + distance).  Over all points, this bounds the shift from both sides, each by
    one point; at the smallest distance both bounds are equal.
    """
    back = np.array([*(np.cos(steepness) * np.array(_BEHIND)), np.sin(steepness)])
    camera = Camera(tuple((middle + back).tolist()), tuple(middle.tolist()), width=width, height=height)
    across, down, ahead = camera.axes @ (places - middle).T  # (3, n)
    half = np.tan(np.deg2rad(camera.field_of_view) / 2) / _ROOM
    upright = half * height / width
    bounds = [
        (before, after, float((x - after * ahead).max()), float((x + before * ahead).min()))
        for x, before, after in ((across, half, half), (down, upright * (1.0 - 2.0 * sky), upright))
    ]
    distance = max((low - high) / (before + after) for before, after, low, high in bounds)
    distance = distance if distance > 0.0 else 1.0
    shifts = [0.5 * (low - after * distance + high + before * distance) for before, after, low, high in bounds]
    target = middle + np.array([*shifts, 0.0]) @ camera.axes
    return replace(camera, eye=tuple((target + distance * back).tolist()), target=tuple(target.tolist()))


# --- Drawing.


_PLAIN = (0.33, 0.36, 0.40)
_UNKNOWN = (0.68, 0.70, 0.72)
_TRACKS = ((0.84, 0.37, 0.0), (0.34, 0.71, 0.91), (0.0, 0.62, 0.45), (0.80, 0.47, 0.65))
_NEAR = 0.1  # meters: nearer parts of a track are not drawn
_OUTSIDE = 1e4  # pixels: Pillow cannot draw to places much farther away
_GAP = 6  # pixels between panels
_BETWEEN = 228  # gray value of the gaps
NORMAL_COLORS = "colors: direction of the normal; pale: up"


def draw_panels(
    panels: Sequence[Panel], sigma: float = 2.0, camera: Camera | None = None, width: int = 1600, height: int = 900
) -> np.ndarray:  # (H, W, 3) uint8
    """Draw panels side by side, each below its name and caption: ellipsoids if it has any, otherwise points; tracks on top."""
    if not panels:
        raise InputError("panels: none given; a picture needs at least one")
    by_normals = any(panel.colors is None and (panel.field is not None or panel.normals is not None) for panel in panels)
    foot = heading("", NORMAL_COLORS, width) if by_normals else np.empty((0, width, 3), np.uint8)
    grid = grid_of(len(panels), width, height - len(foot), _GAP)
    heads = [heading(panel.name, panel.caption, grid.width, _track_colors(panel.tracks)) for panel in panels]
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


def _track_colors(tracks: Sequence[Track]) -> list[Key]:
    return [(track.name, track.color or _TRACKS[i % len(_TRACKS)]) for i, track in enumerate(tracks)]


def _draw(panel: Panel, camera: Camera, sigma: float) -> np.ndarray:  # (H, W, 3) uint8
    if panel.field is not None and len(panel.field) and sigma > 0.0:
        image = render_ellipsoids(panel.field, camera, panel.colors if panel.shows_means else None, sigma * panel.sigma_scale)
    else:
        colors, normals = panel.colors, panel.place_normals
        if colors is None and normals is not None:
            colors = np.where(np.abs(normals).max(axis=1, keepdims=True) > 0.0, normal_colors(normals), _UNKNOWN)
        elif colors is None:
            colors = np.tile(_PLAIN, (len(panel.places), 1))
        image = render_points(panel.places, camera, colors, pixels=round(point_size(len(panel.places))))
    return _draw_tracks(image, panel.tracks, camera)


def _draw_tracks(image: np.ndarray, tracks: Sequence[Track], camera: Camera) -> np.ndarray:  # (H, W, 3) uint8
    """Draw tracks over a picture, each narrower than the previous one, so that overlapping tracks are all visible."""
    picture = Image.fromarray(image)
    draw = ImageDraw.Draw(picture)
    for i, (track, (_, color)) in enumerate(zip(tracks, _track_colors(tracks), strict=True)):
        local = (track.positions - np.array(camera.eye)) @ camera.axes.T
        pixels = camera.focal * local[:, :2] / np.maximum(local[:, 2:], _NEAR) + np.array([camera.width, camera.height]) / 2
        pixels = np.clip(pixels, -_OUTSIDE, _OUTSIDE)
        ahead = local[:, 2] > _NEAR
        for row in np.flatnonzero(ahead[:-1] & ahead[1:]):
            draw.line([*pixels[row], *pixels[row + 1]], _bytes(color), 3 + 3 * (len(tracks) - 1 - i))
    return np.array(picture)
