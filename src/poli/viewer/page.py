"""A self-contained HTML file that shows panels of ellipsoids, points and tracks in 3D: no server, no network.

The page itself is in `static/`: plain HTML, CSS and WebGL2.
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

from poli.errors import InputError, printable
from poli.io.atomic import atomic_path
from poli.options import real_number, whole_number
from poli.viewer.page_data import encode_panels
from poli.viewer.panel import Panel
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
