"""Line charts by Pillow: panels with axes, ticks, a grid, lines, markers, areas and a legend.

matplotlib, which draws the charts of the benchmarks, is not a dependency of the package; the few kinds of marks that odometry and
training need are little code. Everything is drawn at twice its size and halved, which smooths the edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from poli.viewer.picture import write_png

Box = tuple[float, float, float, float]  # pixels: left, top, right, bottom
Limits = tuple[float, float]

_SCALE = 2
_INK, _SOFT, _GRID, _FRAME = "#1a1e26", "#5c636e", "#ebebeb", "#9aa0a6"
_TEXT, _TITLE = 15, 18  # pixels
_TICK = 5  # pixels
_MOST_TICKS = 7
_LEGEND_LINE = 22  # pixels
_MARKER_SIDES = {"v": (math.pi / 2, 3), "s": (math.pi / 4, 4)}  # the direction of the first corner, downward, and their number


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a line of the given width and color, or a marker."""

    label: str
    color: str
    width: float = 2.0
    marker: str = ""


class Chart:
    """A white picture of panels."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (_SCALE * width, _SCALE * height), "white")
        self.draw = ImageDraw.Draw(self.image)

    def save(self, path: Path) -> None:
        write_png(path, np.asarray(self.image.reduce(_SCALE)))

    def text(self, x: float, y: float, text: str, size: int = _TEXT, color: str = _SOFT, anchor: str = "mm") -> None:
        self.draw.text((_SCALE * x, _SCALE * y), text, color, _font(size), anchor=anchor)

    def upright_text(self, x: float, y: float, text: str) -> None:
        """Draw text that reads upward, centered at a position."""
        font = _font(_TEXT)
        right, bottom = (round(edge) for edge in font.getbbox(text)[2:])
        label = Image.new("L", (right + 4, bottom + 4), 0)
        ImageDraw.Draw(label).text((2, 2), text, 255, font)
        label = label.rotate(90, expand=True)
        place = round(_SCALE * x - label.width / 2), round(_SCALE * y - label.height / 2)
        self.image.paste(Image.new("RGB", label.size, _SOFT), place, label)


class Panel:
    """A chart's rectangle with axes. Marks outside of the limits are cut off at its frame."""

    def __init__(self, chart: Chart, box: Box, title: str, labels: tuple[str, str], x: Limits, y: Limits) -> None:
        self._chart, self._box, self._x, self._y = chart, box, x, y
        self._title, self._labels = title, labels
        self._layer = Image.new("RGB", chart.image.size, "white")
        self._draw = ImageDraw.Draw(self._layer)
        self._seen: list[np.ndarray] = []  # (N, 2) pixels of all marks, which the legend avoids
        for value in ticks(*x):
            self._line([(value, y[0]), (value, y[1])], _GRID, 1.0)
        for value in ticks(*y):
            self._line([(x[0], value), (x[1], value)], _GRID, 1.0)

    def line(self, points: np.ndarray, color: str, width: float = 2.0) -> None:  # (N, 2)
        """Connect points by a line, which is interrupted where they are not finite."""
        for part in _finite_parts(points):
            self._line([tuple(point) for point in part], color, width)
            self._seen.append(self._pixels(part))

    def across(self, y: float, color: str) -> None:
        """Draw a dotted horizontal line."""
        left, right = self._x
        stops = np.linspace(left, right, 121)
        for begin, end in zip(stops[:-1:2], stops[1::2], strict=False):
            self._line([(begin, y), (end, y)], color, 1.2)

    def upright(self, x: float, color: str) -> None:
        """Draw a pale vertical line."""
        red, green, blue = (round(255 - 0.5 * (255 - part)) for part in ImageColor.getrgb(color)[:3])
        self._line([(x, self._y[0]), (x, self._y[1])], f"#{red:02x}{green:02x}{blue:02x}", 1.5)

    def markers(self, points: np.ndarray, color: str, marker: str, size: float = 4.5) -> None:  # (N, 2)
        """Draw a marker at each point: o (a disk), a (a ring), v (a triangle), s (a square) or X (a cross)."""
        pixels = self._pixels(points)
        self._seen.append(pixels)
        for x, y in pixels:
            _draw_marker(self._draw, x, y, color, marker, size)

    def area(self, tops: np.ndarray, bottoms: np.ndarray, edges: np.ndarray, color: str) -> None:  # (N), (N), (N + 1)
        """Fill the steps between two curves of constant pieces."""
        high, low = (np.clip(values, *self._y) for values in (tops, bottoms))
        for left, right, top, bottom in zip(edges[:-1], edges[1:], high, low, strict=True):
            if top > bottom:
                (x0, y0), (x1, y1) = self._pixels(np.array([[left, top], [right, bottom]]))
                self._draw.rectangle((_SCALE * x0, _SCALE * y0, max(_SCALE * x1 - 1, _SCALE * x0), _SCALE * y1), color)
        self._seen.append(self._pixels(np.column_stack([0.5 * (edges[:-1] + edges[1:]), high])))

    def finish(self, keys: list[Key], columns: int = 1) -> None:
        """Draw the legend in the corner with the fewest marks, then the frame, ticks and texts."""
        if keys:
            self._legend(keys, columns)
        left, top, right, bottom = self._box
        inside = (round(_SCALE * left), round(_SCALE * top), round(_SCALE * right), round(_SCALE * bottom))
        self._chart.image.paste(self._layer.crop(inside), inside[:2])
        self._chart.draw.rectangle(inside, outline=_FRAME, width=_SCALE)
        for value in ticks(*self._x):
            x = self._pixels(np.array([[value, self._y[0]]]))[0, 0]
            self._chart.draw.line([(_SCALE * x, _SCALE * bottom), (_SCALE * x, _SCALE * (bottom + _TICK))], _FRAME, _SCALE)
            self._chart.text(x, bottom + 2 * _TICK, tick_text(value, ticks(*self._x)), anchor="mt")
        for value in ticks(*self._y):
            y = self._pixels(np.array([[self._x[0], value]]))[0, 1]
            self._chart.draw.line([(_SCALE * (left - _TICK), _SCALE * y), (_SCALE * left, _SCALE * y)], _FRAME, _SCALE)
            self._chart.text(left - 2 * _TICK, y, tick_text(value, ticks(*self._y)), anchor="rm")
        self._chart.text(0.5 * (left + right), top - 14, self._title, _TITLE, _INK)
        self._chart.text(0.5 * (left + right), bottom + 42, self._labels[0])
        self._chart.upright_text(left - 62, 0.5 * (top + bottom), self._labels[1])

    def _legend(self, keys: list[Key], columns: int) -> None:
        rows = math.ceil(len(keys) / columns)
        wide = max(_font(_TEXT).getlength(key.label) for key in keys) / _SCALE + 50
        width, height = columns * wide + 8, rows * _LEGEND_LINE + 10
        left, top, right, bottom = self._box
        corners = [(x, y) for y in (top + 8, bottom - height - 8) for x in (right - width - 8, left + 8)]
        seen = np.concatenate(self._seen) if self._seen else np.empty((0, 2))
        x, y = min(corners, key=lambda at: _count_inside(seen, (*at, at[0] + width, at[1] + height)))
        box = [_SCALE * edge for edge in (x, y, x + width, y + height)]
        self._draw.rounded_rectangle(box, 4 * _SCALE, "white", "#cccccc", _SCALE)
        for i, key in enumerate(keys):
            at, middle = x + 10 + (i // rows) * wide, y + 5 + (i % rows + 0.5) * _LEGEND_LINE
            if key.marker:
                _draw_marker(self._draw, at + 14, middle, key.color, key.marker, 5.0)
            else:
                ends = [(_SCALE * at, _SCALE * middle), (_SCALE * (at + 28), _SCALE * middle)]
                self._draw.line(ends, key.color, round(_SCALE * key.width))
            self._draw.text((_SCALE * (at + 36), _SCALE * middle), key.label, _INK, _font(_TEXT), anchor="lm")

    def _line(self, points: list[tuple[float, float]], color: str, width: float) -> None:
        pixels = [(_SCALE * x, _SCALE * y) for x, y in self._pixels(np.array(points, dtype=np.float64))]
        self._draw.line(pixels, color, max(1, round(_SCALE * width)), joint="curve")

    def _pixels(self, points: np.ndarray) -> np.ndarray:  # (N, 2)
        left, top, right, bottom = self._box
        low, high = np.array([self._x[0], self._y[0]]), np.array([self._x[1], self._y[1]])
        share = np.clip((points - low) / (high - low), -10.0, 10.0)  # far outside; Pillow overflows for huge coordinates
        return np.array([left, bottom]) + share * np.array([right - left, top - bottom])


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


def _finite_parts(points: np.ndarray) -> list[np.ndarray]:
    finite = np.isfinite(points).all(axis=1)
    parts = np.split(np.arange(len(points)), np.flatnonzero(np.diff(finite)) + 1)
    return [points[part] for part in parts if len(part) and finite[part[0]]]


def _count_inside(points: np.ndarray, box: Box) -> int:
    left, top, right, bottom = box
    x, y = points.T
    return int(((x >= left) & (x <= right) & (y >= top) & (y <= bottom)).sum())


def _draw_marker(draw: ImageDraw.ImageDraw, x: float, y: float, color: str, marker: str, size: float) -> None:
    x, y, size = _SCALE * x, _SCALE * y, _SCALE * size
    box = (x - size, y - size, x + size, y + size)
    if marker == "o":
        draw.ellipse(box, color)
    elif marker == "a":
        draw.ellipse(box, outline=color, width=2 * _SCALE)
    elif marker == "X":
        for slope in (-1.0, 1.0):
            draw.line((x - size, y - slope * size, x + size, y + slope * size), color, 2 * _SCALE)
    else:
        first, corners = _MARKER_SIDES[marker]
        angles = first + 2.0 * math.pi * np.arange(corners) / corners
        draw.polygon([(x + 1.3 * size * math.cos(a), y + 1.3 * size * math.sin(a)) for a in angles], color)
