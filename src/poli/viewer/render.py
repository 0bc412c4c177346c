"""A small software renderer: shaded ellipsoids and points with a depth buffer.

A pixel's ray intersects an ellipsoid of r sigma where |L^-1 (o + s v - mu)| = r: a quadratic in s, solved exactly for each pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kernel import kernel

BACKGROUND = (250, 250, 248)
_LIGHT = np.array([0.3, -0.5, 0.81])  # direction to the light, in the world frame
_THINNEST = 1e-3  # relative to the longest semi-axis: a flat ellipsoid still has two sides

# Constants of `normal_colors`; keep in sync with `static/colors.js`, which explains them.
_MIDDLE, _SPAN, _CHROMA, _TURN = 0.69, 0.085, 0.115, np.deg2rad(55.0)
_TO_ROOTS = np.array([[1.0, 0.3963377774, 0.2158037573], [1.0, -0.1055613458, -0.0638541728], [1.0, -0.0894841775, -1.291485548]])
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


@dataclass(frozen=True)
class Camera:
    """A pinhole camera at `eye` that looks at `target`; `up` points up in the picture."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)
    width: int = 1280
    height: int = 720
    field_of_view: float = 55.0  # degrees, across the width

    @property
    def axes(self) -> np.ndarray:  # (3, 3)
        """Rows: right, down, forward."""
        forward = np.subtract(self.target, self.eye).astype(float)
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, self.up)
        if np.linalg.norm(right) < 1e-9:
            raise InputError("the camera looks along its up direction; choose another `up`")
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(forward, right), forward])

    @property
    def focal(self) -> float:
        """The focal length in pixels."""
        return 0.5 * self.width / np.tan(np.deg2rad(self.field_of_view) / 2)


def normal_colors(normals: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 3) in 0..1
    """Map unit normals to OKLab colors: up is pale, down is dark, and the hue of a wall is its direction."""
    x, y, z = normals.T
    c, s = _CHROMA * np.cos(_TURN), _CHROMA * np.sin(_TURN)
    lab = np.stack([_MIDDLE + _SPAN * z, c * x - s * y, s * x + c * y], axis=1)
    linear = np.clip((lab @ _TO_ROOTS.T) ** 3 @ _TO_RGB.T, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055)


def render_ellipsoids(
    field: Ellipsoids,
    camera: Camera,
    colors: np.ndarray | None = None,  # (N, 3) in 0..1; default: colors of the normals
    radius: float = 2.0,
) -> np.ndarray:  # (H, W, 3) uint8
    """Render the ellipsoids at `radius` standard deviations, lit from above."""
    shades = normal_colors(field.normals) if colors is None else np.asarray(colors, dtype=float)
    scales = radius * field.scales
    scales = np.maximum(scales, _THINNEST * np.maximum(scales[:, 2:], 1e-6))
    to_sphere = np.ascontiguousarray(np.swapaxes(field.axes / scales[:, None, :], 1, 2))  # rows: axis / semi-axis
    image, depth = _blank(camera)
    eye = np.array(camera.eye, dtype=float)
    _draw(field.means - eye, to_sphere, scales[:, 2].copy(), shades, camera.axes, camera.focal, _LIGHT, image, depth)
    return _to_bytes(image)


def render_points(points: np.ndarray, camera: Camera, colors: np.ndarray, pixels: int = 2) -> np.ndarray:  # (H, W, 3) uint8
    """Render points as squares of `pixels`; `colors` (N, 3) in 0..1."""
    local = (np.asarray(points, dtype=float) - np.array(camera.eye)) @ camera.axes.T
    ahead = local[:, 2] > 0.1
    local, shades = local[ahead], np.asarray(colors, dtype=float)[ahead]
    order = np.argsort(-local[:, 2])  # far to near: the nearest is drawn last
    u = (camera.focal * local[order, 0] / local[order, 2] + camera.width / 2).astype(int)
    v = (camera.focal * local[order, 1] / local[order, 2] + camera.height / 2).astype(int)
    image, _ = _blank(camera)
    for du in range(pixels):
        for dv in range(pixels):
            inside = (u + du >= 0) & (u + du < camera.width) & (v + dv >= 0) & (v + dv < camera.height)
            image[v[inside] + dv, u[inside] + du] = shades[order][inside]
    return _to_bytes(image)


def _blank(camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    image = np.tile(np.array(BACKGROUND) / 255.0, (camera.height, camera.width, 1))
    return image, np.full((camera.height, camera.width), np.inf)


def _to_bytes(image: np.ndarray) -> np.ndarray:
    return (np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


@kernel
def _draw(means, to_sphere, reach, colors, axes, focal, light, image, depth):
    height, width = depth.shape
    for i in range(len(means)):
        x = axes[0, 0] * means[i, 0] + axes[0, 1] * means[i, 1] + axes[0, 2] * means[i, 2]
        y = axes[1, 0] * means[i, 0] + axes[1, 1] * means[i, 1] + axes[1, 2] * means[i, 2]
        z = axes[2, 0] * means[i, 0] + axes[2, 1] * means[i, 1] + axes[2, 2] * means[i, 2]
        if z - reach[i] < 0.1:
            continue
        half = focal * reach[i] / (z - reach[i]) + 1.0
        u, v = focal * x / z + width / 2, focal * y / z + height / 2
        if u + half < 0 or v + half < 0 or u - half >= width or v - half >= height:
            continue
        A = to_sphere[i]
        ox = -(A[0, 0] * means[i, 0] + A[0, 1] * means[i, 1] + A[0, 2] * means[i, 2])
        oy = -(A[1, 0] * means[i, 0] + A[1, 1] * means[i, 1] + A[1, 2] * means[i, 2])
        oz = -(A[2, 0] * means[i, 0] + A[2, 1] * means[i, 1] + A[2, 2] * means[i, 2])
        c = ox * ox + oy * oy + oz * oz - 1.0
        for row in range(max(0, int(v - half)), min(height, int(v + half) + 2)):
            for column in range(max(0, int(u - half)), min(width, int(u + half) + 2)):
                a, b = (column + 0.5 - width / 2) / focal, (row + 0.5 - height / 2) / focal
                vx = axes[0, 0] * a + axes[1, 0] * b + axes[2, 0]
                vy = axes[0, 1] * a + axes[1, 1] * b + axes[2, 1]
                vz = axes[0, 2] * a + axes[1, 2] * b + axes[2, 2]
                dx = A[0, 0] * vx + A[0, 1] * vy + A[0, 2] * vz
                dy = A[1, 0] * vx + A[1, 1] * vy + A[1, 2] * vz
                dz = A[2, 0] * vx + A[2, 1] * vy + A[2, 2] * vz
                dd, od = dx * dx + dy * dy + dz * dz, ox * dx + oy * dy + oz * dz
                root = od * od - dd * c
                if root <= 0.0:
                    continue
                s = (-od - np.sqrt(root)) / dd
                if s <= 0.0 or s >= depth[row, column]:
                    continue
                depth[row, column] = s
                px, py, pz = ox + s * dx, oy + s * dy, oz + s * dz
                nx = A[0, 0] * px + A[1, 0] * py + A[2, 0] * pz
                ny = A[0, 1] * px + A[1, 1] * py + A[2, 1] * pz
                nz = A[0, 2] * px + A[1, 2] * py + A[2, 2] * pz
                length = np.sqrt(nx * nx + ny * ny + nz * nz)
                shade = 0.55 + 0.45 * abs(nx * light[0] + ny * light[1] + nz * light[2]) / length
                for channel in range(3):
                    image[row, column, channel] = colors[i, channel] * shade
