"""One HTML file that shows panels of ellipsoids, points and tracks in 3D, with all that it needs inside: no server, no network.

The page itself is in `viewer/`: plain HTML, CSS and WebGL2.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Literal, get_args

import numpy as np

from poli.errors import InputError
from poli.files.atomic import atomic_path
from poli.printable import printable
from poli.show.framing import camera_for, grid_of, point_size
from poli.show.page_data import encode_panels
from poli.show.panel import Panel
from poli.show.render import Camera
from poli.validation import real_number, whole_number

Color = Literal["normal", "planarity", "uncertainty", "height", "own"]
Theme = Literal["dark", "light"]

MOST_SIGMA = 3.0  # the end of the page's slider
_WINDOW = 1584, 760  # pixels of the page that the panels of a window of 1600 by 900 have
_WORDS = 90  # pixels of the page at the top of each panel
_SCRIPTS = (
    "linear.js", "colors.js", "shaders.js", "flat_shaders.js", "scene.js", "gpu.js", "draw.js", "camera.js", "layout.js",
    "controls.js", "main.js",
)  # fmt: skip


def write_page(
    path: str | os.PathLike[str],
    title: str,
    panels: Sequence[Panel],
    *,
    note: str = "",
    sigma: float = 2.0,
    color: Color = "normal",
    theme: Theme = "dark",
    camera: Camera | None = None,
    most_ellipsoids: int = 50_000,
    most_points: int = 500_000,
) -> tuple[str, ...]:
    """Write the page, whole or not at all. Returns what it leaves out, a sentence each; the page says the same.

    All panels are seen by one camera, so they must share one frame of coordinates; z is upwards. `sigma` is how many standard
    deviations ellipsoids are drawn at first, `color` what their colors tell, `camera` where the view begins. A panel of more than
    `most_ellipsoids` or `most_points` shows so many of them, evenly chosen.
    """
    if not panels:
        raise InputError("panels: none given; a page needs at least one")
    for name, value, known in (("color", color, get_args(Color)), ("theme", theme, get_args(Theme))):
        if value not in known:
            raise InputError(f"{name} is {value!r}; expected one of {', '.join(known)}")
    if real_number(sigma, "sigma", "a number of standard deviations of at least 0") > MOST_SIGMA:
        raise InputError(f"sigma is {sigma}; the page's slider ends at {MOST_SIGMA:g}")
    if color == "own" and all(panel.colors is None for panel in panels):
        raise InputError("color is 'own', but no panel has colors; give one `colors`, or choose another")
    whole_number(most_ellipsoids, "most_ellipsoids", least=1)
    whole_number(most_points, "most_points", least=1)
    data, left_out = encode_panels(panels, most_ellipsoids, most_points)
    title, note = printable(title), printable(note)  # no reversed writing, and no bytes that are not UTF-8
    data |= {"title": title, "note": note, "sigma": float(sigma), "mostSigma": MOST_SIGMA, "color": color, "theme": theme}
    data["pointSize"] = point_size(max(min(len(panel.places), most_points) for panel in panels))
    data["camera"] = _view(camera or _first_view(panels), np.array(data["origin"]))
    try:
        page = _fill(title, theme, data)
    except ValueError:  # JSON has no word for what overflows
        raise InputError("panels: coordinates are beyond what can be drawn; scale them, or leave out what is far off") from None
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return tuple(left_out)


def _first_view(panels: Sequence[Panel]) -> Camera:
    """For a window of the usual size; in another, panels show more than that, and not less."""
    grid = grid_of(len(panels), *_WINDOW, gap=0)
    return camera_for(panels, grid.width, grid.height, sky=min(_WORDS / grid.height, 0.25))


def _view(camera: Camera, origin: np.ndarray) -> dict[str, Any]:
    if np.linalg.norm(np.cross(camera.up, (0.0, 0.0, 1.0))) > 1e-6 or camera.up[2] <= 0.0:
        raise InputError(f"camera: its up is {camera.up}; the page turns about z, so up must be (0, 0, 1)")
    upright = 2.0 * np.arctan(np.tan(np.deg2rad(camera.field_of_view) / 2) * camera.height / camera.width)
    eye, target = np.array(camera.eye) - origin, np.array(camera.target) - origin
    aspect = camera.width / camera.height
    return {"eye": eye.tolist(), "target": target.tolist(), "fieldOfView": float(upright), "aspect": aspect}


def _fill(title: str, theme: Theme, data: dict[str, Any]) -> str:
    """The template with its parts, all put in at once, so that no part is searched for the marks of another."""
    viewer = files("poli.show") / "viewer"
    scripts = [(viewer / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    parts = {
        "title": html.escape(title),
        "theme": theme,
        "style": (viewer / "style.css").read_text(encoding="utf-8"),
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),  # no text ends the script element
        "script": "\n".join(scripts),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], (viewer / "page.html").read_text(encoding="utf-8"))
