"""Pictures of ellipsoids and points, and an HTML page that shows them in 3D."""

from poli.viewer.page import write_page
from poli.viewer.panel import Frame, Layer, Panel, Track, flat_discs
from poli.viewer.picture import draw_panels, write_png
from poli.viewer.render import Camera, normal_colors, render_ellipsoids, render_points

__all__ = [
    "Camera",
    "Frame",
    "Layer",
    "Panel",
    "Track",
    "draw_panels",
    "flat_discs",
    "normal_colors",
    "render_ellipsoids",
    "render_points",
    "write_page",
    "write_png",
]
