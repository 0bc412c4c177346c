"""Pictures of ellipsoids and points, and an HTML page that shows them in 3D."""

from poli.show.figure import write_png
from poli.show.page import write_page
from poli.show.panel import Panel, Track, flat_discs
from poli.show.parts import Frame, Layer
from poli.show.render import Camera, normal_colors, render_ellipsoids, render_points

__all__ = [
    "Camera",
    "Frame",
    "Layer",
    "Panel",
    "Track",
    "flat_discs",
    "normal_colors",
    "render_ellipsoids",
    "render_points",
    "write_page",
    "write_png",
]
