"""Encode panels for the page: rounded below visible precision, as base64.

    place   uint16 steps of the panel's box, if a step is 5 mm or finer; float32 otherwise
    turn    int16 quaternion (w, x, y, z) of the axes, from the thinnest to the longest; accurate to 1 / 30,000
    size    float16 standard deviations along them; accurate to 0.05 %
    normal  int8, for colors only; accurate to half a degree
    color   uint8

Coordinates are relative to the page's origin, so that float32 on the GPU is precise enough everywhere.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.files import quaternions
from poli.show.panel import Panel

_FINEST_STEP = 0.005  # meters: a coarser grid would be visible up close
_LARGEST_HALF = 65504.0
_RANGE = 2.0, 98.0  # percentiles spanned by a color scale
_THINNEST = 1e-4  # meters: lower bound of the uncertainty scale


def encode_panels(panels: Sequence[Panel], most_ellipsoids: int, most_points: int) -> tuple[dict[str, Any], list[str]]:
    """Return the panels for JSON, and a sentence for each panel that is subsampled."""
    origin = _origin(panels)
    encoded, left_out = [], []
    for panel in panels:
        content, cut = _encode_panel(panel, origin, most_ellipsoids, most_points)
        encoded.append(content)
        left_out += cut
    parts = [part for panel in encoded for part in (panel["ellipsoids"], panel["points"]) if part]
    return {
        "origin": origin.tolist(),
        "rounding": max((part["place"]["rounding"] for part in parts), default=0.0),  # meters, at most
        "ranges": {"uncertainty": _uncertainty_range(panels), "height": _height_range(panels, origin)},
        "panels": encoded,
    }, left_out


def _encode_panel(panel: Panel, origin: np.ndarray, most_ellipsoids: int, most_points: int) -> tuple[dict[str, Any], list[str]]:
    content: dict[str, Any] = {"name": panel.name, "caption": panel.caption, "sigmaScale": panel.sigma_scale}
    content |= {"ellipsoids": None, "points": None}
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
            "color": None if colors is None else _encode_colors(colors[rows]),
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
            "place": _encode_places(panel.places[rows], origin),
            "normal": None if normals is None else _encode_normals(normals[rows]),
            "color": None if panel.colors is None else _encode_colors(panel.colors[rows]),
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


def encode_array(array: np.ndarray) -> str:
    return b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def _encode_field(field: Ellipsoids, normals: np.ndarray, origin: np.ndarray) -> dict[str, Any]:
    return {
        "place": _encode_places(field.means, origin),
        "turn": encode_array(np.rint(32767.0 * quaternions(field.axes)).astype("<i2")),
        "size": encode_array(np.minimum(field.scales, _LARGEST_HALF).astype("<f2")),
        "normal": _encode_normals(normals),
    }


def _encode_places(places: np.ndarray, origin: np.ndarray) -> dict[str, Any]:
    """Encode positions: place = start + step * data, in meters from the page's origin, with an error of at most `rounding`."""
    local = places - origin
    low = local.min(axis=0)
    step = np.maximum(local.max(axis=0) - low, 1e-9) / 65535.0
    if step.max() > _FINEST_STEP:
        rounding = float(np.abs(local).max()) * 2.0**-24
        data, kind, low, step = local.astype("<f4"), "float32", np.zeros(3), np.ones(3)
    else:
        rounding = float(step.max()) / 2.0
        data, kind = np.rint((local - low) / step).astype("<u2"), "uint16"
    return {"type": kind, "start": low.tolist(), "step": step.tolist(), "rounding": rounding, "data": encode_array(data)}


def _encode_normals(normals: np.ndarray) -> str:  # (N, 3); four bytes per row, aligned for the GPU
    return encode_array(_four(np.rint(127.0 * normals).astype(np.int8)))


def _encode_colors(colors: np.ndarray) -> str:  # (N, 3) in 0..1
    return encode_array(_four(np.rint(255.0 * colors).astype(np.uint8)))


def _four(rows: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 4)
    return np.concatenate([rows, np.zeros((len(rows), 1), rows.dtype)], axis=1)


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
    parts = [panel.places, *(track.positions for track in panel.tracks)]
    if panel.field is not None:
        parts.append(panel.field.means)
    everything = np.concatenate([part for part in parts if len(part)] or [np.zeros((1, 3))])
    return everything.min(axis=0), everything.max(axis=0)


def _uncertainty_range(panels: Sequence[Panel]) -> list[float]:
    """Range of the standard deviation along the normal, in meters."""
    thin = [panel.field.scales[:, 0] for panel in panels if panel.field is not None and not panel.directions_only]
    if not sum(map(len, thin)):
        return [0.01, 0.1]
    low, high = np.percentile(np.concatenate(thin), _RANGE)
    low = max(float(low), _THINNEST)
    return [low, max(float(high), 1.1 * low)]


def _height_range(panels: Sequence[Panel], origin: np.ndarray) -> list[float]:
    """Range of heights in meters, relative to the page's origin."""
    heights = [panel.places[:, 2] - origin[2] for panel in panels if len(panel.places)]
    heights += [panel.field.means[:, 2] - origin[2] for panel in panels if panel.field is not None and len(panel.field)]
    if not heights:
        return [0.0, 1.0]
    low, high = np.percentile(np.concatenate(heights), _RANGE)
    return [float(low), max(float(high), float(low) + 1e-3)]
