"""What a picture shows, written above it and not over it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poli.show.lettering import HEIGHT, draw_text, text_width, wrapped
from poli.show.render import BACKGROUND

Key = tuple[str, tuple[float, float, float]]  # a name, and its color in the picture

_INK, _SOFT = (0.10, 0.12, 0.15), (0.36, 0.39, 0.43)
_EDGE = 12  # pixels around the words
_SWATCH = 18, 6  # pixels: how wide and how high the color of a key is
_GAP = 8  # pixels between a key's color and its name; twice as many between keys


def heading(title: str, words: str, width: int, keys: Sequence[Key] = ()) -> np.ndarray:  # (h, width, 3) uint8
    """A title, words about it in as many lines as they need, and a line of names with their colors."""
    lines = wrapped(words, width - 2 * _EDGE)
    count = bool(title) + len(lines) + bool(keys)
    image = np.full((_EDGE + count * HEIGHT + _EDGE // 2, width, 3), BACKGROUND, np.uint8)
    row = _EDGE
    for text, color in ([(title, _INK)] if title else []) + [(line, _SOFT) for line in lines]:
        draw_text(image, text, (_EDGE, row), color)
        row += HEIGHT
    column = _EDGE
    for name, color in keys:
        top = row + (HEIGHT - _SWATCH[1]) // 2
        image[top : top + _SWATCH[1], column : column + _SWATCH[0]] = np.rint(255.0 * np.array(color))
        draw_text(image, name, (column + _SWATCH[0] + _GAP, row), _SOFT)
        column += _SWATCH[0] + _GAP + text_width(name) + 2 * _GAP
    return image


def headed(picture: np.ndarray, title: str, words: str = "") -> np.ndarray:  # (H, W, 3) uint8, higher than it was
    return np.concatenate([heading(title, words, picture.shape[1]), picture])
