"""Encode panels for the page: rounded below visible precision, as base64.

`array_codes` encodes positions, shapes and colors, `scalar_data` fields, and `frame_data` the scans of timelines.

Coordinates are relative to the page's origin, so that float32 on the GPU is precise enough everywhere.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.files import quaternions
from poli.viewer.panel import Frame, Panel, scalar_range, unit_of

# --- Arrays of numbers in the page: rounded below visible precision, as base64.
#
#     place   uint16 steps of the panel's box, if a step is 5 mm or finer; float32 otherwise
# turn    int16 quaternion (w, x, y, z) of the axes, from the thinnest to the longest; accurate to 1 / 30,000
# size    float16 standard deviations along them; accurate to 0.05 %
#     normal  int8, for colors only; accurate to half a degree
#     color   uint8


_FINEST_STEP = 0.005  # meters: a coarser grid would be visible up close
_LARGEST_HALF = 65504.0


def encode_array(array: np.ndarray) -> str:
    """The bytes of an array as base64."""
    return b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def turns_of(field: Ellipsoids) -> np.ndarray:  # (N, 4) int16
    """Quaternions of the axes. The first axis is the normal, facing the sensor."""
    axes = field.axes.copy()
    away = np.einsum("ni,ni->n", axes[:, :, 0], field.normals) < 0.0
    axes[away, :, :2] *= -1.0  # turning two axes around keeps it a rotation
    return np.rint(32767.0 * quaternions(axes)).astype("<i2")


def sizes_of(field: Ellipsoids) -> np.ndarray:  # (N, 3) float16
    """Standard deviations along the axes."""
    return np.minimum(field.scales, _LARGEST_HALF).astype("<f2")


def encode_places(places: np.ndarray, origin: np.ndarray) -> dict[str, Any]:
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


def encode_normals(normals: np.ndarray) -> str:  # (N, 3); four bytes per row, aligned for the GPU
    return encode_array(_four(np.rint(127.0 * normals).astype(np.int8)))


def encode_colors(colors: np.ndarray) -> str:  # (N, 3) in 0..1
    return encode_array(_four(np.rint(255.0 * colors).astype(np.uint8)))


def _four(rows: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 4)
    return np.concatenate([rows, np.zeros((len(rows), 1), rows.dtype)], axis=1)


# --- Encode fields of points for the page: 16-bit steps over the range of all panels, and the robust range of their color scales.


UNKNOWN = 65535  # the code of NaN
_STEPS = 65534


def encode_fields(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return name, unit, range of the color scale and encoding of each field: value = start + step * code.

    Fields of small integers, such as rings, are exact; others are rounded to 1 / 131,068 of their range.
    """
    return [_field(name, [values for panel in panels for values in _values(panel, name)]) for name in _names(panels)]


def codes_of(values: np.ndarray, field: dict[str, Any]) -> np.ndarray:  # (N,) -> (N,) uint16
    known = np.isfinite(values)
    steps = (np.where(known, values, field["start"]).astype(np.float64) - field["start"]) / (field["step"] or 1.0)
    return np.where(known, np.clip(np.rint(steps), 0, _STEPS), UNKNOWN).astype("<u2")


def _names(panels: Sequence[Panel]) -> list[str]:
    found: dict[str, None] = {}  # in order of appearance
    for panel in panels:
        for part in _parts(panel):
            found.update(dict.fromkeys(part))
    return list(found)


def _parts(panel: Panel) -> Iterable[Any]:
    yield panel.scalars
    for frame in panel.frames:
        yield frame.scalars
        yield frame.field_scalars


def _values(panel: Panel, name: str) -> list[np.ndarray]:
    return [part[name] for part in _parts(panel) if name in part]


def _field(name: str, parts: list[np.ndarray]) -> dict[str, Any]:
    low, high = scalar_range(parts)
    known = [values[np.isfinite(values)].astype(np.float64) for values in parts]
    known = [values for values in known if len(values)]
    start = min((float(values.min()) for values in known), default=0.0)
    end = max((float(values.max()) for values in known), default=0.0)
    whole = all(values.dtype.kind in "biu" or (values == np.rint(values)).all() for values in known)
    step = 1.0 if whole and end - start <= _STEPS else (end - start) / _STEPS
    return {"name": name, "unit": unit_of(name), "low": low, "high": high, "whole": whole, "start": start, "step": step}


# --- Encode the scans of a timeline for the page: they follow each other in one array, each with a box of its own.


def encode_frames(panel: Panel, origin: np.ndarray, fields: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The scans of a timeline; `counts` are the rows of each in `points` and `ellipsoids`."""
    if not panel.frames:
        return None
    shown = [frame.field for frame in panel.frames if frame.field is not None]
    points = {"place": _encode_frame_places([frame.places for frame in panel.frames], origin)}
    ellipsoids = None
    if shown:
        ellipsoids = {
            "place": _encode_frame_places([_means(frame) for frame in panel.frames], origin),
            "turn": encode_array(np.concatenate([turns_of(field) for field in shown])),
            "size": encode_array(np.concatenate([sizes_of(field) for field in shown])),
            "normal": None,  # the first axis of `turn`
            "scalars": _frame_scalars([(len(_means(frame)), frame.field_scalars) for frame in panel.frames], fields),
            "counts": [len(_means(frame)) for frame in panel.frames],
        }
    return {
        "names": [frame.name for frame in panel.frames],
        "seconds": [frame.seconds for frame in panel.frames],
        "totals": [max(frame.total, len(frame.places)) for frame in panel.frames],
        "positions": [None if frame.position is None else (frame.position - origin).tolist() for frame in panel.frames],
        "shareWorld": panel.frames_share_world,
        "points": points
        | {
            "normal": None,
            "scalars": _frame_scalars([(len(frame.places), frame.scalars) for frame in panel.frames], fields),
            "counts": [len(frame.places) for frame in panel.frames],
        },
        "ellipsoids": ellipsoids,
    }


def _means(frame: Frame) -> np.ndarray:  # (M, 3)
    return np.empty((0, 3)) if frame.field is None else frame.field.means


def _encode_frame_places(parts: list[np.ndarray], origin: np.ndarray) -> dict[str, Any]:
    """As `_encode_places`, with a box for each part: `start` and `step` have a row for each."""
    starts, steps, codes = [], [], []
    for places in parts:
        local = places - origin
        low = local.min(axis=0) if len(local) else np.zeros(3)
        step = np.maximum(local.max(axis=0) - low, 1e-9) / 65535.0 if len(local) else np.ones(3)
        starts.append(low.tolist())
        steps.append(step.tolist())
        codes.append(np.rint((local - low) / step).astype("<u2"))
    rounding = max((max(step) for step, code in zip(steps, codes, strict=True) if len(code)), default=0.0) / 2.0
    return {"type": "uint16", "start": starts, "step": steps, "rounding": rounding, "data": encode_array(np.concatenate(codes))}


def _frame_scalars(parts: list[tuple[int, Mapping[str, np.ndarray]]], fields: list[dict[str, Any]]) -> dict[str, str]:
    """The fields of all frames; unknown in frames that lack one."""
    encoded = {}
    for field in fields:
        name = field["name"]
        if any(name in scalars for _, scalars in parts):
            columns = [codes_of(scalars.get(name, np.full(count, np.nan)), field) for count, scalars in parts]
            encoded[name] = encode_array(np.concatenate(columns))
    return encoded


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
