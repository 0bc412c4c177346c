"""A cubic spline through evenly spaced points, and Gaussian smoothing of its points."""

import numpy as np

from poli.kernel import kernel


class Spline:
    """A twice continuously differentiable curve through `points` at 0, `spacing`, 2 `spacing` and so on.

    The end conditions are "not a knot": the first two pieces are one cubic, and so are the last two.
    """

    def __init__(self, points: np.ndarray, spacing: float) -> None:  # (K, D), at least four points
        self._spacing = spacing
        slopes = _slopes(np.ascontiguousarray(points, np.float64), spacing)
        # The cubic of each piece from its ends and slopes (Hermite form), the highest power first.
        chord = np.diff(points, axis=0) / spacing
        bend = (slopes[:-1] + slopes[1:] - 2.0 * chord) / spacing
        self._pieces = bend / spacing, (chord - slopes[:-1]) / spacing - bend, slopes[:-1], points[:-1]  # (K - 1, D) each

    def __call__(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (M,) -> (M, D), (M, D)
        """Return points and derivatives. Beyond the ends the outermost cubics continue."""
        piece = np.clip((at / self._spacing).astype(np.int64), 0, len(self._pieces[0]) - 1)
        s = (at - piece * self._spacing)[:, None]
        a, b, c, d = (coefficient[piece] for coefficient in self._pieces)
        return d + c * s + b * (s * s) + a * (s * s * s), c + b * s * 2.0 + a * (s * s) * 3.0


def gaussian_smoothed(points: np.ndarray, sigma: float) -> np.ndarray:  # (K, D) -> (K, D)
    """Smooth with Gaussian weights up to 4 sigma away; beyond the ends the end points are repeated."""
    reach = int(4.0 * sigma + 0.5)
    weights = np.exp(-0.5 / sigma**2 * np.arange(-reach, reach + 1) ** 2)
    weights /= weights.sum()
    longer = np.pad(points, ((reach, reach), (0, 0)), mode="edge")
    smooth = points * weights[reach]
    for i in range(reach):
        smooth += (longer[i : i + len(points)] + longer[2 * reach - i : 2 * reach - i + len(points)]) * weights[i]
    return smooth


@kernel
def _slopes(points, h):  # (K, D) -> (K, D)
    """Return the derivatives m at the points. Neighboring cubics have the same second derivative where they meet,

        h m[i-1] + 4 h m[i] + h m[i+1] = 3 (y[i+1] - y[i-1]),

    and the first two and the last two pieces have the same third derivative:

        h m[0] + 2 h m[1] = (5 h (y[1] - y[0]) + h (y[2] - y[1])) / 2.

    The system is tridiagonal and solved by forward elimination.
    """
    n = len(points)
    diagonal, above, m = np.full(n, 4.0 * h), np.full(n, h), np.empty_like(points)
    diagonal[0] = diagonal[-1] = h
    above[0] = 2.0 * h
    for a in range(points.shape[1]):
        y = points[:, a]
        for i in range(1, n - 1):
            m[i, a] = 3.0 * (h * ((y[i] - y[i - 1]) / h) + h * ((y[i + 1] - y[i]) / h))
        m[0, a] = ((h + 4.0 * h) * h * ((y[1] - y[0]) / h) + h * h * ((y[2] - y[1]) / h)) / (2.0 * h)
        m[-1, a] = (h * h * ((y[-2] - y[-3]) / h) + (4.0 * h + h) * h * ((y[-1] - y[-2]) / h)) / (2.0 * h)
    for i in range(1, n):
        share = (2.0 * h if i == n - 1 else h) / diagonal[i - 1]
        diagonal[i] -= share * above[i - 1]
        for a in range(points.shape[1]):
            m[i, a] -= share * m[i - 1, a]
    for i in range(n - 1, -1, -1):
        for a in range(points.shape[1]):
            if i < n - 1:
                m[i, a] -= above[i] * m[i + 1, a]
            m[i, a] /= diagonal[i]
    return m
