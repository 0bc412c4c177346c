"""Line charts by Pillow: panels with a title, a legend, axes, ticks, a grid, lines, dots and areas.

matplotlib, which draws the charts of the benchmarks, is not a dependency of the package; the few kinds of marks that odometry and
training need are little code. Everything is drawn at twice its size and halved, which smooths the edges.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from poli.viewer.picture import write_png

Box = tuple[float, float, float, float]  # pixels: left, top, right, bottom
Limits = tuple[float, float]

_SCALE = 2
_INK, _SOFT, _GRID, _FRAME = "#1a1e26", "#5c636e", "#ebebeb", "#9aa0a6"
_TEXT, _TITLE = 15, 18  # pixels
_TICK = 5  # pixels
_MOST_TICKS = 7


class Chart:
    """A white picture of panels."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (_SCALE * width, _SCALE * height), "white")
        self.draw = ImageDraw.Draw(self.image)

    def save(self, path: Path) -> None:
        """Write the picture as PNG."""
        write_png(path, np.asarray(self.image.reduce(_SCALE)))

    def text(self, x: float, y: float, text: str, size: int = _TEXT, color: str = _SOFT, anchor: str = "mm") -> None:
        """Write text; `anchor` is the part of it at x, y, as Pillow names them."""
        self.draw.text((_SCALE * x, _SCALE * y), text, color, _font(size), anchor=anchor)


class Panel:
    """A chart's rectangle with axes. Marks outside of the limits are cut off at its frame; those with a label have a legend."""

    def __init__(self, chart: Chart, box: Box, title: str, label: str, x: Limits, y: Limits) -> None:
        self._chart, self._box, self._x, self._y = chart, box, x, y
        self._title, self._label = title, label
        self._layer = Image.new("RGB", chart.image.size, "white")
        self._draw = ImageDraw.Draw(self._layer)
        self._keys: list[tuple[str, str, float]] = []  # label, color, width
        for value in ticks(*x):
            self.upright(value, _GRID)
        for value in ticks(*y):
            self.across(value, _GRID)

    def line(self, points: np.ndarray, color: str, width: float = 2.0, label: str = "") -> None:  # (N, 2)
        """Connect points by a line, which is interrupted where they are not finite."""
        self._keys += [(label, color, width)] if label else []
        finite = np.isfinite(points).all(axis=1)
        for part in np.split(np.arange(len(points)), np.flatnonzero(np.diff(finite)) + 1):
            if len(part) and finite[part[0]]:
                pixels = [tuple(pixel) for pixel in self._pixels(points[part])]
                self._draw.line(pixels, color, max(1, round(_SCALE * width)), joint="curve")

    def across(self, y: float, color: str, label: str = "") -> None:
        """Draw a thin horizontal line."""
        self.line(np.array([[self._x[0], y], [self._x[1], y]]), color, 1.0, label)

    def upright(self, x: float, color: str) -> None:
        """Draw a thin vertical line."""
        self.line(np.array([[x, self._y[0]], [x, self._y[1]]]), color, 1.0)

    def dots(self, points: np.ndarray, color: str, size: float = 4.5, label: str = "") -> None:  # (N, 2)
        """Draw a disk at each finite point."""
        self._keys += [(label, color, 2.0 * size)] if label else []
        for x, y in self._pixels(points[np.isfinite(points).all(axis=1)]):
            reach = _SCALE * size
            self._draw.ellipse((x - reach, y - reach, x + reach, y + reach), color)

    def area(self, tops: np.ndarray, bottoms: np.ndarray, edges: np.ndarray, color: str, label: str) -> None:
        """Fill the steps between two curves of constant pieces, (N,) each, with (N + 1,) edges."""
        self._keys.append((label, color, 9.0))
        high, low = (np.clip(values, *self._y) for values in (tops, bottoms))
        for left, right, top, bottom in zip(edges[:-1], edges[1:], high, low, strict=True):
            if top > bottom:
                (x0, y0), (x1, y1) = self._pixels(np.array([[left, top], [right, bottom]]))
                self._draw.rectangle((x0, y0, max(x1 - 1, x0), y1), color)

    def finish(self) -> None:
        """Copy the marks into the chart and draw the frame, the ticks, the texts and the legend around them."""
        left, top, right, bottom = self._box
        inside = (round(_SCALE * left), round(_SCALE * top), round(_SCALE * right), round(_SCALE * bottom))
        self._chart.image.paste(self._layer.crop(inside), inside[:2])
        draw = self._chart.draw
        draw.rectangle(inside, outline=_FRAME, width=_SCALE)
        for value in ticks(*self._x):
            x = self._pixels(np.array([[value, self._y[0]]]))[0, 0]
            draw.line([(x, _SCALE * bottom), (x, _SCALE * (bottom + _TICK))], _FRAME, _SCALE)
            self._chart.text(x / _SCALE, bottom + 2 * _TICK, tick_text(value, ticks(*self._x)), anchor="mt")
        for value in ticks(*self._y):
            y = self._pixels(np.array([[self._x[0], value]]))[0, 1]
            draw.line([(_SCALE * (left - _TICK), y), (_SCALE * left, y)], _FRAME, _SCALE)
            self._chart.text(left - 2 * _TICK, y / _SCALE, tick_text(value, ticks(*self._y)), anchor="rm")
        self._chart.text(left, top - (36 if self._keys else 14), self._title, _TITLE, _INK, "lm")
        self._chart.text(0.5 * (left + right), bottom + 42, self._label)
        for label, color, width in self._keys:
            key = [_SCALE * edge for edge in (left, top - 14 - width / 2, left + 20, top - 14 + width / 2)]
            draw.rectangle(key, color)
            self._chart.text(left + 26, top - 14, label, anchor="lm")
            left += 44 + _font(_TEXT).getlength(label) / _SCALE

    def _pixels(self, points: np.ndarray) -> np.ndarray:  # (N, 2), of the enlarged picture
        left, top, right, bottom = self._box
        low, high = np.array([self._x[0], self._y[0]]), np.array([self._x[1], self._y[1]])
        share = np.clip((points - low) / (high - low), -10.0, 10.0)  # far outside; Pillow overflows for huge coordinates
        return _SCALE * (np.array([left, bottom]) + share * np.array([right - left, top - bottom]))


def ticks(low: float, high: float) -> np.ndarray:
    """Return round values between two limits: at most seven multiples of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if (high - low) / (factor * power) <= _MOST_TICKS)
    return step * np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)


def tick_text(value: float, among: np.ndarray) -> str:
    """Return a tick's value with as many decimals as the distance between the ticks needs."""
    step = float(among[1] - among[0]) if len(among) > 1 else max(abs(value), 1.0)
    return f"{value + 0.0:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def equal_limits(points: np.ndarray, box: Box, least: float) -> tuple[Limits, Limits]:  # (N, 2)
    """Return limits of x and y around points, with the same scale on both axes and at least `least` of either."""
    left, top, right, bottom = box
    low, high = points.min(axis=0), points.max(axis=0)
    spans = 1.1 * np.maximum(high - low, least)
    scale = max(float(spans[0]) / (right - left), float(spans[1]) / (bottom - top))  # of a pixel
    center, half = 0.5 * (low + high), 0.5 * scale * np.array([right - left, bottom - top])
    x, y = np.column_stack([center - half, center + half]).tolist()
    return (x[0], x[1]), (y[0], y[1])


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(_SCALE * size)
