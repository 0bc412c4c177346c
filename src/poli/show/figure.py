"""Picture files: PNG by Pillow, headings above pictures, and plots by matplotlib if it is installed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from poli.errors import InputError, MissingExtra
from poli.files.atomic import atomic_path
from poli.show.render import BACKGROUND

Color = tuple[float, float, float]  # 0..1
Key = tuple[str, Color]  # a name, and its color in the picture

LINE = 22  # pixels, height of a line of text
_FONT_SIZE = 18  # pixels
_BASELINE = 17  # pixels below the upper edge of a line
_INK, _SOFT = (0.10, 0.12, 0.15), (0.36, 0.39, 0.43)
_EDGE = 12  # pixels, margin around the text
_SWATCH = 18, 6  # pixels, width and height of the color of a key
_GAP = 8  # pixels between a key's color and its name; twice that between keys


def write_png(path: str | os.PathLike[str], image: np.ndarray) -> None:  # (H, W, 3) uint8
    """Write a PNG file. Equal images give identical files."""
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        raise InputError(f"image has shape {image.shape} and type {image.dtype}; expected (H, W, 3) of uint8, not empty")
    with atomic_path(path) as temporary:
        Image.fromarray(image).save(temporary, format="PNG", compress_level=6)


def heading(title: str, words: str, width: int, keys: Sequence[Key] = ()) -> np.ndarray:  # (h, width, 3) uint8
    """Draw a title, a wrapped text, and a line of color keys."""
    lines = wrapped(words, width - 2 * _EDGE)
    count = bool(title) + len(lines) + bool(keys)
    image = Image.new("RGB", (width, _EDGE + count * LINE + _EDGE // 2), BACKGROUND)
    draw = ImageDraw.Draw(image)
    row = _EDGE
    for text, color in ([(title, _INK)] if title else []) + [(line, _SOFT) for line in lines]:
        draw.text((_EDGE, row + _BASELINE), text, _bytes(color), _font(), anchor="ls")
        row += LINE
    column = _EDGE
    for name, color in keys:
        top = row + (LINE - _SWATCH[1]) // 2
        draw.rectangle((column, top, column + _SWATCH[0] - 1, top + _SWATCH[1] - 1), _bytes(color))
        draw.text((column + _SWATCH[0] + _GAP, row + _BASELINE), name, _bytes(_SOFT), _font(), anchor="ls")
        column += _SWATCH[0] + _GAP + text_width(name) + 2 * _GAP
    return np.array(image)


def headed(picture: np.ndarray, title: str, words: str = "") -> np.ndarray:  # (H + h, W, 3) uint8
    """Add a heading above a picture."""
    return np.concatenate([heading(title, words, picture.shape[1]), picture])


def wrapped(text: str, width: int) -> list[str]:
    """Break a text at its spaces into lines of at most `width` pixels; a longer word gets a separate line."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def text_width(text: str) -> int:  # pixels
    return round(_font().getlength(text))


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(_FONT_SIZE)  # bundled with Pillow: pictures look the same on every system


def _bytes(color: Color) -> tuple[int, int, int]:
    red, green, blue = (round(255.0 * part) for part in color)
    return red, green, blue


def pyplot() -> ModuleType:
    """Import matplotlib.pyplot with a backend that needs no screen."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("plotting", "bench") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def save_figure(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120, bbox_inches="tight")
