"""Where to stand so that everything is seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poli.show.panel import Panel
from poli.show.render import Camera

_DIRECTION = np.array([-0.80, -0.34, 0.50])  # from the target to the eye: behind, a little to the right, above
_MOST = 60.0  # percent of the points that the picture is made for: scans have few, far ones
_ROOM = 1.15
_FEW = 20_000  # points that tell as much as all


def camera_for(panels: Sequence[Panel], width: int = 1280, height: int = 720) -> Camera:
    """A view of all panels from behind and above, z upwards."""
    places = np.concatenate([_some(part) for panel in panels for part in _parts(panel)] or [np.zeros((1, 3))])
    target = np.median(places, axis=0)
    reach = float(np.percentile(np.linalg.norm(places - target, axis=1), _MOST)) or 1.0
    camera = Camera((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), width=width, height=height)
    distance = _ROOM * reach / np.tan(np.deg2rad(camera.field_of_view) / 2)
    eye = target + distance * _DIRECTION / np.linalg.norm(_DIRECTION)
    return Camera(tuple(eye.tolist()), tuple(target.tolist()), width=width, height=height)


def _parts(panel: Panel) -> list[np.ndarray]:
    field = [] if panel.field is None else [panel.field.means]
    return [part for part in (panel.places, *field, *(track.positions for track in panel.tracks)) if len(part)]


def _some(places: np.ndarray) -> np.ndarray:  # (N, 3) -> (n, 3)
    return places[:: len(places) // _FEW + 1]
