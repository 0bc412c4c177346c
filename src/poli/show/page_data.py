"""Encode panels for the page: rounded below visible precision, as base64.

`array_codes` encodes positions, shapes and colors, `scalar_data` fields, and `frame_data` the scans of timelines.

Coordinates are relative to the page's origin, so that float32 on the GPU is precise enough everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.show.array_codes import encode_array, encode_colors, encode_normals, encode_places, sizes_of, turns_of
from poli.show.frame_data import encode_frames
from poli.show.panel import Panel
from poli.show.scalar_data import codes_of, encode_fields

_RANGE = 2.0, 98.0  # percentiles spanned by a color scale
_THINNEST = 1e-4  # meters: lower bound of the uncertainty scale


def encode_panels(panels: Sequence[Panel], most_ellipsoids: int, most_points: int) -> tuple[dict[str, Any], list[str]]:
    """Return the panels for JSON, and a sentence for each panel that is subsampled."""
    origin = _origin(panels)
    fields = encode_fields(panels)
    encoded, left_out = [], []
    for panel in panels:
        content, cut = _encode_panel(panel, origin, fields, most_ellipsoids, most_points)
        encoded.append(content)
        left_out += cut
    wholes = [whole for panel in encoded for whole in (panel, panel["frames"]) if whole]
    parts = [part for whole in wholes for part in (whole["ellipsoids"], whole["points"]) if part]
    return {
        "origin": origin.tolist(),
        "fields": fields,
        "rounding": max((part["place"]["rounding"] for part in parts), default=0.0),  # meters, at most
        "ranges": {"uncertainty": _uncertainty_range(panels), "height": _height_range(panels, origin)},
        "panels": encoded,
    }, left_out


def _encode_panel(
    panel: Panel, origin: np.ndarray, fields: list[dict[str, Any]], most_ellipsoids: int, most_points: int
) -> tuple[dict[str, Any], list[str]]:
    content: dict[str, Any] = {"name": panel.name, "caption": panel.caption, "sigmaScale": panel.sigma_scale}
    content |= {"ellipsoids": None, "points": None, "frames": encode_frames(panel, origin, fields)}
    content["viewpoint"] = None if panel.viewpoint is None else (panel.viewpoint - origin).tolist()
    content["layers"] = [{"name": layer.name, "color": layer.color} for layer in panel.layers]
    left_out = []
    if panel.field is not None and len(panel.field):
        rows = _evenly(len(panel.field), most_ellipsoids)
        if len(rows) < len(panel.field):
            left_out.append(f"panel {panel.name!r}: {len(rows)} of {len(panel.field)} ellipsoids, evenly chosen")
        field = panel.field.select(rows)
        normals = panel.place_normals if panel.shows_means else None
        colors = panel.colors if panel.shows_means else None
        content["ellipsoids"] = {
            **_encode_field(field, field.normals if normals is None else normals[rows], origin),
            "color": None if colors is None else encode_colors(colors[rows]),
            "scalars": _encode_scalars(panel.scalars, fields, rows) if panel.shows_means else {},
            "layers": _layer_counts(rows, [layer.ellipsoids for layer in panel.layers]),
            "directionsOnly": panel.directions_only,
            "count": len(rows),
            "total": len(panel.field),
        }
    if not panel.shows_means and len(panel.places):
        rows = _evenly(len(panel.places), most_points)
        if len(rows) < len(panel.places):
            left_out.append(f"panel {panel.name!r}: {len(rows)} of {len(panel.places)} points, evenly chosen")
        normals = panel.place_normals
        content["points"] = {
            "place": encode_places(panel.places[rows], origin),
            "normal": None if normals is None else encode_normals(normals[rows]),
            "color": None if panel.colors is None else encode_colors(panel.colors[rows]),
            "scalars": _encode_scalars(panel.scalars, fields, rows),
            "layers": _layer_counts(rows, [layer.points for layer in panel.layers]),
            "count": len(rows),
            "total": len(panel.places),
        }
    content["tracks"] = [
        {
            "name": track.name,
            "color": track.color,
            "count": len(track.positions),
            "place": encode_array((track.positions - origin).astype("<f4")),
        }
        for track in panel.tracks
    ]
    return content, left_out


def _encode_scalars(scalars: Any, fields: list[dict[str, Any]], rows: np.ndarray) -> dict[str, str]:
    return {
        field["name"]: encode_array(codes_of(scalars[field["name"]][rows], field)) for field in fields if field["name"] in scalars
    }


def _layer_counts(rows: np.ndarray, counts: list[int]) -> list[int]:
    """How many of the chosen rows, in ascending order, belong to each layer."""
    return np.diff(np.searchsorted(rows, np.cumsum([0, *counts]))).tolist() if counts else []


def _encode_field(field: Ellipsoids, normals: np.ndarray, origin: np.ndarray) -> dict[str, Any]:
    return {
        "place": encode_places(field.means, origin),
        "turn": encode_array(turns_of(field)),
        "size": encode_array(sizes_of(field)),
        "normal": encode_normals(normals),
    }


def _evenly(count: int, most: int) -> np.ndarray:
    """At most `most` row indices, random but fixed for each `count`: panels of one cloud keep the same rows."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


def _origin(panels: Sequence[Panel]) -> np.ndarray:  # (3,)
    """The center of all panels in whole meters, or zero if the center is near zero."""
    lows, highs = zip(*(_box(panel) for panel in panels), strict=True)
    middle = np.rint(0.5 * (np.min(lows, axis=0) + np.max(highs, axis=0)))
    return np.where(np.abs(middle) < 1000.0, 0.0, middle)


def _box(panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    parts = [panel.places, *(track.positions for track in panel.tracks), *(frame.places for frame in panel.frames)]
    if panel.field is not None:
        parts.append(panel.field.means)
    everything = np.concatenate([part for part in parts if len(part)] or [np.zeros((1, 3))])
    return everything.min(axis=0), everything.max(axis=0)


def _uncertainty_range(panels: Sequence[Panel]) -> list[float]:
    """Range of the standard deviation along the normal, in meters."""
    shown = [panel for panel in panels if not panel.directions_only]
    fields = [panel.field for panel in shown] + [frame.field for panel in shown for frame in panel.frames]
    thin = [field.scales[:, 0] for field in fields if field is not None]
    if not sum(map(len, thin)):
        return [0.01, 0.1]
    low, high = np.percentile(np.concatenate(thin), _RANGE)
    low = max(float(low), _THINNEST)
    return [low, max(float(high), 1.1 * low)]


def _height_range(panels: Sequence[Panel], origin: np.ndarray) -> list[float]:
    """Range of heights in meters, relative to the page's origin."""
    heights = [panel.places[:, 2] - origin[2] for panel in panels if len(panel.places)]
    heights += [frame.places[:, 2] - origin[2] for panel in panels for frame in panel.frames]
    heights += [panel.field.means[:, 2] - origin[2] for panel in panels if panel.field is not None and len(panel.field)]
    if not heights:
        return [0.0, 1.0]
    low, high = np.percentile(np.concatenate(heights), _RANGE)
    return [float(low), max(float(high), float(low) + 1e-3)]
