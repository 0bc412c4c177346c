"""The viewer's colors of normals, for pictures drawn elsewhere. `viewer/colours.js` has the same numbers, and the reasons."""

import numpy as np

_MIDDLE, _SPAN, _CHROMA, _TURN = 0.69, 0.085, 0.115, np.deg2rad(55.0)
_TO_ROOTS = np.array([[1.0, 0.3963377774, 0.2158037573], [1.0, -0.1055613458, -0.0638541728], [1.0, -0.0894841775, -1.291485548]])
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


def calm_normal_colors(normals: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 3) in 0..1
    """Unit normals as colors of OKLab: pale is up, dark is down, and a wall has the hue of its direction."""
    x, y, z = normals.T
    c, s = _CHROMA * np.cos(_TURN), _CHROMA * np.sin(_TURN)
    lab = np.stack([_MIDDLE + _SPAN * z, c * x - s * y, s * x + c * y], axis=1)
    linear = np.clip((lab @ _TO_ROOTS.T) ** 3 @ _TO_RGB.T, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055)
