"""Pictures of ellipsoids and points."""

from poli.show.png import write_png
from poli.show.render import Camera, normal_colors, render_ellipsoids, render_points

__all__ = ["Camera", "normal_colors", "render_ellipsoids", "render_points", "write_png"]
