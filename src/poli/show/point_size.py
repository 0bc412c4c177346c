"""How large points are drawn: so that the many points of a large cloud do not run together."""

from math import sqrt

_LARGEST, _SMALLEST = 3.0, 1.0  # pixels
_MANY = 15_000  # points that are drawn at the largest


def point_size(count: int) -> float:
    """Pixels, in halves: the points of a larger cloud cover as much as those of one of `_MANY`."""
    size = _LARGEST * sqrt(_MANY / max(count, _MANY))
    return max(round(2.0 * size) / 2.0, _SMALLEST)
