"""Where to stand so that everything is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from poli.show.panel import Panel
from poli.show.render import Camera

_DIRECTION = np.array([-0.80, -0.34, 0.50])  # from the target to the eye: behind, a little to the right, above
# Scans have few, far points, which a picture of all would be made for; an object has none. So the picture is made for points nearer
# to the middle than twice the median: most of a scan, and all of an object.
_REACH = 2.0
_SEEN = 99.0  # percent of these
_ROOM = 1.05
_FEW = 20_000  # points that tell as much as all


def camera_for(panels: Sequence[Panel], width: int = 1280, height: int = 720) -> Camera:
    """A view of all panels from behind and above, z upwards."""
    places = np.concatenate([_some(part) for panel in panels for part in _parts(panel)] or [np.zeros((1, 3))])
    away = np.linalg.norm(places - np.median(places, axis=0), axis=1)
    shown = places[away <= max(_REACH * float(np.median(away)), 1e-9)]
    target = np.percentile(shown, (100.0 - _SEEN, _SEEN), axis=0).mean(axis=0) if len(shown) else np.median(places, axis=0)
    camera = Camera(_tuple(target + _DIRECTION), _tuple(target), width=width, height=height)
    across, down, ahead = camera.axes @ (shown - target).T  # (3, n)
    half = np.tan(np.deg2rad(camera.field_of_view) / 2)
    needed = np.maximum(np.abs(across), np.abs(down) * width / height) / half - ahead  # the distance at which each comes into view
    distance = _ROOM * float(np.percentile(needed, _SEEN)) if len(needed) else 0.0
    return replace(camera, eye=_tuple(target + (distance if distance > 0.0 else 1.0) * _DIRECTION / np.linalg.norm(_DIRECTION)))


def _parts(panel: Panel) -> list[np.ndarray]:
    field = [] if panel.field is None else [panel.field.means]
    return [part for part in (panel.places, *field, *(track.positions for track in panel.tracks)) if len(part)]


def _some(places: np.ndarray) -> np.ndarray:  # (N, 3) -> (n, 3)
    return places[:: len(places) // _FEW + 1]


def _tuple(place: np.ndarray) -> tuple[float, float, float]:
    x, y, z = place.tolist()
    return x, y, z
