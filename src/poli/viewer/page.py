"""A self-contained HTML file that shows panels of ellipsoids, points and tracks in 3D: no server, no network.

The page itself is in `static/`: plain HTML, CSS and WebGL2.
"""

from __future__ import annotations

import html
import json
import os
import re
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Literal, get_args

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.files import quaternions
from poli.errors import InputError, printable
from poli.io.atomic import atomic_path
from poli.options import real_number, whole_number
from poli.viewer.panel import Frame, Panel, Scalars
from poli.viewer.picture import camera_for, grid_of, point_size
from poli.viewer.render import Camera

COLORS = ("normal", "planarity", "uncertainty", "height", "own", "layer")
Theme = Literal["dark", "light"]

MOST_ELLIPSOIDS, MOST_POINTS = 50_000, 500_000  # drawn in a panel
MOST_SIGMA = 3.0  # maximum of the page's slider
_WINDOW = 1584, 760  # CSS pixels available to the panels in a window of 1600 by 900
_WORDS = 90  # CSS pixels for the text at the top of each panel
_SCRIPTS = (
    "layout.js", "colors.js", "fields.js", "shaders.js", "flat_shaders.js", "scene.js", "gpu.js", "draw.js", "camera.js",
    "timeline.js", "clip.js", "controls.js", "pick.js", "probe.js", "main.js",
)  # fmt: skip


def write_page(
    path: str | os.PathLike[str],
    title: str,
    panels: Sequence[Panel],
    *,
    note: str = "",
    sigma: float = 2.0,
    color: str = "normal",
    theme: Theme = "dark",
    camera: Camera | None = None,
    most_ellipsoids: int = MOST_ELLIPSOIDS,
    most_points: int = MOST_POINTS,
) -> tuple[str, ...]:
    """Write the page atomically. Returns a sentence for each panel that is subsampled; the page shows the same.

    All panels share one camera, so they must be in the same coordinate frame, z up. `sigma` is the initial size of the ellipsoids
    in standard deviations, `color` the initial coloring: normal, planarity, uncertainty, height, own (the panels' colors), layer,
    or the name of a scalar. `camera` is the initial view. A panel with more than `most_ellipsoids` or `most_points` shows an evenly
    chosen subset.
    """
    if not panels:
        raise InputError("panels: none given; a page needs at least one")
    if theme not in get_args(Theme):
        raise InputError(f"theme is {theme!r}; expected one of {', '.join(get_args(Theme))}")
    if real_number(sigma, "sigma", "a number of standard deviations of at least 0") > MOST_SIGMA:
        raise InputError(f"sigma is {sigma}; the page's slider ends at {MOST_SIGMA:g}")
    whole_number(most_ellipsoids, "most_ellipsoids", least=1)
    whole_number(most_points, "most_points", least=1)
    missing = {"own": "colors", "layer": "layers"}.get(color)
    if missing and not any(panel.colors is not None if color == "own" else panel.layers for panel in panels):
        raise InputError(f"color is {color!r}, but no panel has {missing}; choose another coloring")
    data, left_out = encode_panels(panels, most_ellipsoids, most_points)
    color = _coloring(color, [field["name"] for field in data["fields"]])
    title, note = printable(title), printable(note)  # removes right-to-left overrides and invalid UTF-8
    data |= {"title": title, "note": note, "sigma": float(sigma), "mostSigma": MOST_SIGMA, "color": color, "theme": theme}
    counts = [min(len(panel.places), most_points) for panel in panels]
    data["pointSize"] = point_size(max(counts + [len(frame.places) for panel in panels for frame in panel.frames]))
    if camera is None:  # fitted to a typical window; in other windows, panels show at least as much
        grid = grid_of(len(panels), *_WINDOW, gap=0)
        camera = camera_for(panels, grid.width, grid.height, sky=min(_WORDS / grid.height, 0.25))
    data["camera"] = _view(camera, np.array(data["origin"]))
    try:
        page = _fill(title, theme, data)
    except ValueError:  # JSON cannot hold infinities
        raise InputError("panels: coordinates are too large to draw; scale them, or remove far outliers") from None
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return tuple(left_out)


def _coloring(color: str, fields: list[str]) -> str:
    """The page's name of a coloring. A field with the name of a built-in coloring is chosen as `field:NAME`."""
    if color in COLORS or color in (f"field:{name}" for name in fields):
        return color
    if color in fields:
        return f"field:{color}"
    has = f", or a field: {', '.join(fields)}" if fields else "; the data has no other fields"
    raise InputError(f"color is {color!r}; expected one of {', '.join(COLORS)}{has}")


def _view(camera: Camera, origin: np.ndarray) -> dict[str, Any]:
    if np.linalg.norm(np.cross(camera.up, (0.0, 0.0, 1.0))) > 1e-6 or camera.up[2] <= 0.0:
        raise InputError(f"camera: up is {camera.up}; the page rotates about z, so up must be (0, 0, 1)")
    upright = 2.0 * np.arctan(np.tan(np.deg2rad(camera.field_of_view) / 2) * camera.height / camera.width)
    eye, target = np.array(camera.eye) - origin, np.array(camera.target) - origin
    aspect = camera.width / camera.height
    return {"eye": eye.tolist(), "target": target.tolist(), "fieldOfView": float(upright), "aspect": aspect}


def _fill(title: str, theme: Theme, data: dict[str, Any]) -> str:
    """Fill the template in one pass, so that placeholders inside a part are not replaced."""
    viewer = files("poli.viewer") / "static"
    scripts = [(viewer / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    parts = {
        "title": html.escape(title),
        "theme": theme,
        "style": (viewer / "style.css").read_text(encoding="utf-8"),
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),  # text cannot end the script
        "script": "\n".join(scripts),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], (viewer / "page.html").read_text(encoding="utf-8"))


# --- The numbers of panels: arrays, rounded below visible precision, as base64.
#
#     place   uint16 steps of the cloud's box, if a step is 5 mm or finer; float32 otherwise
#     turn    int16 quaternion (w, x, y, z) of the axes, from the thinnest to the longest; accurate to 1 / 30,000
#     size    float16 standard deviations along them; accurate to 0.05 %
#     normal  int8, for colors only; accurate to half a degree
#     color   uint8
#     scalars uint16 steps over the range of a field in all panels
#
# Coordinates are relative to the page's origin, so that float32 on the GPU is precise enough everywhere.

UNKNOWN = 65535  # the code of NaN in a field
_STEPS = 65534
_FINEST_STEP = 0.005  # meters: a coarser grid would be visible up close
_LARGEST_HALF = 65504.0
_RANGE = 2.0, 98.0  # percentiles spanned by a color scale: a few odd values would use up most of its colors
_THINNEST = 1e-4  # meters: lower bound of the uncertainty scale
# Units that a name implies. Readers convert the times of points to seconds and call them `time`; for others, files do not say.
_UNITS = {"time": "s", "gps_time": "s", "range": "m"}


def encode_panels(panels: Sequence[Panel], most_ellipsoids: int, most_points: int) -> tuple[dict[str, Any], list[str]]:
    """Return the panels for JSON, and a sentence for each panel that is subsampled."""
    everything = np.concatenate([part for panel in panels for part in panel.everything] or [np.zeros((1, 3))])
    middle = np.rint(0.5 * (everything.min(axis=0) + everything.max(axis=0)))
    origin = np.where(np.abs(middle) < 1000.0, 0.0, middle)  # whole meters
    encoder = _Encoder(origin, _encode_fields(panels))
    encoded = [encoder.panel(panel, most_ellipsoids, most_points) for panel in panels]
    low, high = robust_range(everything[:, 2] - origin[2])
    return {
        "origin": origin.tolist(),
        "fields": encoder.fields,
        "rounding": encoder.rounding,  # meters, at most
        "ranges": {"uncertainty": _uncertainty_range(panels), "height": [low, max(high, low + 1e-3)]},
        "panels": encoded,
    }, encoder.left_out


class _Encoder:
    """Encodes the clouds of a page."""

    def __init__(self, origin: np.ndarray, fields: list[dict[str, Any]]) -> None:
        self.origin, self.fields = origin, fields
        self.rounding = 0.0  # meters: the largest of all clouds
        self.left_out: list[str] = []

    def panel(self, panel: Panel, most_ellipsoids: int, most_points: int) -> dict[str, Any]:
        field, points, layers = None, None, panel.layers
        normals, colors = panel.place_normals, panel.colors
        if panel.field is not None:
            own = (normals, colors, panel.scalars) if panel.shows_means else (panel.field.normals, None, {})
            counts = [layer.ellipsoids for layer in layers]
            field = self.cloud(panel.field.means, *own, panel.field, counts, most_ellipsoids)
            self._tell(panel, field, "ellipsoids")
            if field is not None:
                field["directionsOnly"] = panel.directions_only
        if not panel.shows_means:
            counts = [layer.points for layer in layers]
            points = self.cloud(panel.places, normals, colors, panel.scalars, None, counts, most_points)
            self._tell(panel, points, "points")
        return {
            "name": panel.name,
            "caption": panel.caption,
            "sigmaScale": panel.sigma_scale,
            "viewpoint": self._local(panel.viewpoint),
            "layers": [{"name": layer.name} for layer in layers],
            "ellipsoids": field,
            "points": points,
            "frames": self.frames(panel.frames, panel.frames_share_world) if panel.frames else None,
            "tracks": [
                {
                    "name": track.name,
                    "color": track.color,
                    "count": len(track.positions),
                    "place": _base64((track.positions - self.origin).astype("<f4")),
                }
                for track in panel.tracks
            ],
        }

    def frames(self, frames: Sequence[Frame], share_world: bool) -> dict[str, Any]:
        """The scans of a timeline. The normals of their ellipsoids are the first axis of `turn`."""
        parts = []
        for frame in frames:
            points = self.cloud(frame.places, None, None, frame.scalars)
            if points is not None:
                points["total"] = max(frame.total, len(frame.places))
            field = None if frame.field is None else self.cloud(frame.field.means, None, None, frame.field_scalars, frame.field)
            parts.append({"points": points, "ellipsoids": field})
        return {
            "names": [frame.name for frame in frames],
            "seconds": [frame.seconds for frame in frames],
            "positions": [self._local(frame.position) for frame in frames],
            "shareWorld": share_world,
            "parts": parts,
        }

    def cloud(
        self,
        places: np.ndarray,  # (N, 3)
        normals: np.ndarray | None,  # (N, 3)
        colors: np.ndarray | None,  # (N, 3) in 0..1
        scalars: Scalars,
        field: Ellipsoids | None = None,
        layers: Sequence[int] = (),  # points of each
        most: int | None = None,
    ) -> dict[str, Any] | None:
        """Points, or the ellipsoids of a field. Those of more than `most` are evenly chosen. None if there are none."""
        if not len(places):
            return None
        rows = _evenly(len(places), most)
        shapes = None if field is None else field.select(rows)
        codes = {one["name"]: _codes(scalars[one["name"]][rows], one) for one in self.fields if one["name"] in scalars}
        return {
            "count": len(rows),
            "total": len(places),
            "place": self._places(places[rows]),
            "turn": None if shapes is None else _base64(_turns(shapes)),
            "size": None if shapes is None else _base64(np.minimum(shapes.scales, _LARGEST_HALF).astype("<f2")),
            "normal": None if normals is None else _base64(_four(np.rint(127.0 * normals[rows]).astype(np.int8))),
            "color": None if colors is None else _base64(_four(np.rint(255.0 * colors[rows]).astype(np.uint8))),
            "scalars": {name: _base64(values) for name, values in codes.items()},
            "layers": np.diff(np.searchsorted(rows, np.cumsum([0, *layers]))).tolist(),  # how many of the rows are in each
        }

    def _places(self, places: np.ndarray) -> dict[str, Any]:
        """Encode positions: place = start + step * data, in meters from the page's origin."""
        local = places - self.origin
        low = local.min(axis=0)
        step = np.maximum(local.max(axis=0) - low, 1e-9) / 65535.0
        if step.max() > _FINEST_STEP:
            rounding = float(np.abs(local).max()) * 2.0**-24
            data, kind, low, step = local.astype("<f4"), "float32", np.zeros(3), np.ones(3)
        else:
            rounding = float(step.max()) / 2.0
            data, kind = np.rint((local - low) / step).astype("<u2"), "uint16"
        self.rounding = max(self.rounding, rounding)
        return {"type": kind, "start": low.tolist(), "step": step.tolist(), "data": _base64(data)}

    def _local(self, place: np.ndarray | None) -> list[float] | None:
        return None if place is None else (place - self.origin).tolist()

    def _tell(self, panel: Panel, cloud: dict[str, Any] | None, what: str) -> None:
        if cloud is not None and cloud["count"] < cloud["total"]:
            self.left_out.append(f"panel {panel.name!r}: {cloud['count']} of {cloud['total']} {what}, evenly chosen")


def _encode_fields(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return name, unit, range of the color scale and encoding of each field: value = start + step * code.

    Fields of small integers, such as rings, are exact; others are rounded to 1 / 131,068 of their range.
    """
    found: dict[str, list[np.ndarray]] = {}  # in order of appearance
    for panel in panels:
        frames = [scalars for frame in panel.frames for scalars in (frame.scalars, frame.field_scalars)]
        for scalars in (panel.scalars, *frames):
            for name, values in scalars.items():
                found.setdefault(name, []).append(values[np.isfinite(values)].astype(np.float64))
    fields = []
    for name, parts in found.items():
        known = np.concatenate(parts)
        low, high = robust_range(known)
        start, end = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        whole = bool((known == np.rint(known)).all())
        step = 1.0 if whole and end - start <= _STEPS else (end - start) / _STEPS
        unit = _UNITS.get(name, "")
        fields.append({"name": name, "unit": unit, "low": low, "high": high, "whole": whole, "start": start, "step": step})
    return fields


def robust_range(values: np.ndarray) -> tuple[float, float]:  # (N,), finite
    """The range of a color scale: without the outer 2 % on either side."""
    if not len(values):
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(values, _RANGE))
    if low == high:  # most values are equal, such as in a field of flags
        low, high = float(values.min()), float(values.max())
    return low, high


def _uncertainty_range(panels: Sequence[Panel]) -> list[float]:
    """Range of the standard deviation along the normal, in meters."""
    shown = [panel for panel in panels if not panel.directions_only]
    fields = [panel.field for panel in shown] + [frame.field for panel in shown for frame in panel.frames]
    low, high = robust_range(np.concatenate([field.scales[:, 0] for field in fields if field is not None] or [np.zeros(0)]))
    low = max(low, _THINNEST)
    return [low, max(high, 1.1 * low)]


def _codes(values: np.ndarray, field: dict[str, Any]) -> np.ndarray:  # (N,) -> (N,) uint16
    known = np.isfinite(values)
    steps = (np.where(known, values, field["start"]).astype(np.float64) - field["start"]) / (field["step"] or 1.0)
    return np.where(known, np.clip(np.rint(steps), 0, _STEPS), UNKNOWN).astype("<u2")


def _turns(field: Ellipsoids) -> np.ndarray:  # (N, 4) int16
    """Quaternions of the axes. The first axis is the normal, facing the sensor."""
    axes = field.axes.copy()
    away = np.einsum("ni,ni->n", axes[:, :, 0], field.normals) < 0.0
    axes[away, :, :2] *= -1.0  # turning two axes around keeps it a rotation
    return np.rint(32767.0 * quaternions(axes)).astype("<i2")


def _four(rows: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 4), aligned for the GPU
    return np.concatenate([rows, np.zeros((len(rows), 1), rows.dtype)], axis=1)


def _base64(array: np.ndarray) -> str:
    return b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def _evenly(count: int, most: int | None) -> np.ndarray:
    """At most `most` row indices, random but fixed for each `count`: panels of one cloud keep the same rows."""
    if most is None or count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(count)[:most])
