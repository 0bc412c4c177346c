"""Directions as colors, the same as on the page."""

from __future__ import annotations

import numpy as np

# A normal (x, y, z) is the OKLab color (lightness, a, b) = (middle + span z, chroma x, chroma y): a wall has the hue of its
# direction, what points up is pale. See `viewer/colours.js`.
_MIDDLE, _SPAN, _CHROMA = 0.7, 0.17, 0.135
_TO_CONES = np.array([[1.0, 0.3963377774, 0.2158037573], [1.0, -0.1055613458, -0.0638541728], [1.0, -0.0894841775, -1.291485548]])
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


def direction_colors(normals: np.ndarray) -> np.ndarray:  # (N, 3) unit -> (N, 3) in 0..1
    lab = np.stack([_MIDDLE + _SPAN * normals[:, 2], _CHROMA * normals[:, 0], _CHROMA * normals[:, 1]], axis=1)
    linear = np.clip((lab @ _TO_CONES.T) ** 3 @ _TO_RGB.T, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
