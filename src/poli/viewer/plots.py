"""Read the output folder of `poli odometry` for viewers, and draw its trajectory and the learning curve of `poli train`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from poli.ellipsoids import Ellipsoids
from poli.errors import FormatError, InputError
from poli.io.formats import read
from poli.io.tables import read_json, read_log
from poli.io.trajectory_files import read_kitti
from poli.lidar_odometry.run_folder import map_of_run, read_steps
from poli.lidar_odometry.step import STAGES
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan
from poli.viewer.panel import Track
from poli.viewer.picture import write_png

Box = tuple[float, float, float, float]  # pixels: left, top, right, bottom
Limits = tuple[float, float]

_FARTHEST = 1e9  # meters, maximum coordinate of a pose
_POSES, _TRUTH, _CONFIG = "poses_kitti.txt", "truth_kitti.txt", "config.json"
_DATA = {"path": str, "dataset": str, "options": dict, "first": int, "name": str}  # what config.json says of the input

# Colorblind-safe palette (Okabe and Ito).
_BLUE, _ORANGE, _GREEN, _BLACK, _GRAY, _PALE = "#0072b2", "#e69f00", "#009e73", "#000000", "#8c8c8c", "#cccccc"
_STATUSES = {"degenerate": _ORANGE, "bridged": "#56b4e9", "predicted": "#d55e00", "restarted": "#cc79a7"}
_PARTS = ("#bbbbbb", _BLUE, _GREEN, _ORANGE)  # of the time of a scan or of a training step

_SIZE = 1680, 840  # pixels
_WAY: Box = (70, 60, 850, 775)
_MIDDLE: Box = (960, 60, 1650, 345)
_TIMES: Box = (960, 490, 1650, 775)
_ROOM = 1.5  # upper limit of the time axis relative to the 95th percentile: the first scans may include compilation
_FEW = 100  # scans; of fewer, each is a dot
_LEAST_EXTENT = 2.0  # meters, so that noise of a stationary sensor does not fill the plot


# --- A run of odometry


@dataclass(frozen=True, eq=False)
class OdometryRun:
    """The contents of an output folder of `poli odometry`."""

    poses: np.ndarray  # (M, 4, 4) T_world_scan
    truth: np.ndarray | None  # (M, 4, 4)
    map: Ellipsoids | Scan | None  # the map of the drive: ellipsoids or points
    data: dict[str, Any]  # the input of the run: name, path, dataset, options, first
    remarks: tuple[str, ...] = ()  # what is missing, and why

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The estimated path, and the true one if it is known."""
        tracks = (Track(self.poses[:, :3, 3], "estimate"),)
        return tracks if self.truth is None else (*tracks, Track(self.truth[:, :3, 3], "truth"))


def is_odometry_run(folder: Path) -> bool:
    """Whether a folder looks like the output of `poli odometry`."""
    return (folder / _POSES).is_file() and (folder / _CONFIG).is_file()


def read_odometry_run(folder: Path) -> OdometryRun:
    """Read a folder. Raises FormatError with the name of a damaged file."""
    poses = _read_poses(folder / _POSES)  # (M, 4, 4)
    if not len(poses):
        raise InputError(f"{folder}: no poses to show; the run ended before its first scan was processed")
    truth = _read_poses(folder / _TRUTH) if (folder / _TRUTH).is_file() else None
    config = read_json(folder / _CONFIG)
    data: Any = config.get("data") if isinstance(config, dict) else None
    good = isinstance(data, dict) and all(type(data.get(key)) is kind for key, kind in _DATA.items())
    good = good and 0 <= data["first"] < 1 << 53 and "\0" not in data["path"]
    if not good or not all(isinstance(value, bool | int | float | str) for value in data["options"].values()):
        raise FormatError(f"{folder / _CONFIG}: not written by `poli odometry`: 'data' is missing, incomplete or damaged")
    where, missing = map_of_run(folder)
    found: Ellipsoids | Scan | None = None
    if where is not None and where.is_file():
        scan = read(where, "ply")
        found = Ellipsoids.load(where) if "cov_xx" in scan.fields else scan.clean()
    return OdometryRun(poses, truth, found if found is not None and len(found) else None, data, (missing,) if missing else ())


def _read_poses(path: Path) -> np.ndarray:  # (M, 4, 4)
    poses = read_kitti(path, complete=False)
    far = np.flatnonzero(np.abs(poses[:, :3, 3]).max(axis=1, initial=0.0) > _FARTHEST)
    if len(far):
        raise FormatError(f"{path}: pose {far[0]} is {np.abs(poses[far[0], :3, 3]).max():.3g} m away; the file is damaged")
    return poses


def draw_trajectory(run: Path) -> Path:
    """Write `trajectory.png` to the run's folder: path from above, errors per step (without truth, the fit), and times."""
    steps, poses = read_steps(run), read_kitti(run / _POSES, complete=False)  # (K, 4, 4)
    truth = read_kitti(run / _TRUTH, complete=False) if (run / _TRUTH).is_file() else None  # (K, 4, 4)
    count = min(len(steps), len(poses))  # a killed run may have one more pose
    if not count:
        raise InputError(f"{run}: no poses to draw; the run ended before its first scan was processed")
    steps, poses = steps[:count], poses[:count]
    truth = truth[:count] if truth is not None and len(truth) >= count else None
    chart = Chart(*_SIZE)
    _draw_way(chart, poses, truth, [row["status"] for row in steps])
    _draw_fit(chart, poses, truth, steps)
    _draw_times(chart, steps)
    chart.save(run / "trajectory.png")
    return run / "trajectory.png"


def _draw_way(chart: Chart, poses: np.ndarray, truth: np.ndarray | None, statuses: list[str]) -> None:
    way = poses[:, :2, 3]
    length = float(np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1).sum())
    everything = way if truth is None else np.concatenate([way, truth[:, :2, 3]])
    title = f"from above, in meters: {len(poses)} scans, {length:.1f} m"
    panel = Panel(chart, _WAY, title, "x (frame of the first scan); y is up", *equal_limits(everything, _WAY, _LEAST_EXTENT))
    if truth is not None:
        panel.line(truth[:, :2, 3], _GRAY, 5.0, "truth")
    _draw_dotted(panel, way, "estimate")
    panel.dots(way[:1], _BLACK, 6.0, "start")
    for status, color in _STATUSES.items():
        rows = [i for i, found in enumerate(statuses) if found == status]
        if rows:
            panel.dots(way[rows], color, label=f"{status}: {len(rows)}")
    panel.finish()


def _draw_fit(chart: Chart, poses: np.ndarray, truth: np.ndarray | None, steps: list[dict[str, str]]) -> None:
    numbers = np.array([int(row["scan"]) for row in steps])
    if truth is not None and len(poses) > 1:
        errors = relative_errors(poses, truth)
        values = np.append(np.nan, 100.0 * errors.translation)
        title, most = "relative pose error per step, in cm", 1.1 * max(float(np.nanmax(values)), 1e-3)
    else:
        values = np.array([100.0 * float(row["fit"]) if row["fit"] else np.nan for row in steps])
        title, most = "points on surfaces of the map, in %", 105.0
    panel = Panel(chart, _MIDDLE, title, "scan", _around(numbers), (0.0, most))
    _draw_statuses(panel, steps, numbers)
    _draw_dotted(panel, np.column_stack([numbers, values]))
    if truth is not None and len(poses) > 1:
        rmse = 100.0 * errors.rmse.translation
        panel.across(rmse, _BLACK, f"RMSE {rmse:.1f} cm")
    panel.finish()


def _draw_times(chart: Chart, steps: list[dict[str, str]]) -> None:
    numbers = np.array([int(row["scan"]) for row in steps])
    seconds = np.array([[float(row[f"{stage}_seconds"] or 0.0) for stage in STAGES] for row in steps])  # (K, stages)
    total = 1e3 * seconds.sum(axis=1)
    usual, median = float(np.percentile(total, 95)), float(np.median(total))
    # In a short run, compilation dominates the first scans.
    shown = min(2.0 * _ROOM * median if usual > 3.0 * median else max(_ROOM * usual, 1.0), 1.15 * float(total.max()) + 1e-3)
    cut = int((total > shown).sum())
    said = f"; {cut} above, up to {total.max():.0f} ms" if cut else ""
    title = f"time in ms: median {median:.0f}{said}"
    panel = Panel(chart, _TIMES, title, "scan", _around(numbers), (0.0, shown))
    edges = np.append(numbers, numbers[-1] + 1) - 0.5
    tops = np.cumsum(1e3 * seconds, axis=1)
    for i, (stage, color) in enumerate(zip(STAGES, _PARTS, strict=True)):
        panel.area(tops[:, i], tops[:, i - 1] if i else np.zeros(len(steps)), edges, color, stage)
    _draw_statuses(panel, steps, numbers)
    panel.finish()


def _draw_dotted(panel: Panel, points: np.ndarray, label: str = "") -> None:  # (K, 2)
    panel.line(points, _BLUE, 1.6, label)
    if len(points) < _FEW:
        panel.dots(points, _BLUE, 3.0)


def _draw_statuses(panel: Panel, steps: list[dict[str, str]], numbers: np.ndarray) -> None:
    for row, number in zip(steps, numbers, strict=True):
        if row["status"] in _STATUSES:
            panel.upright(float(number), _STATUSES[row["status"]])


def _around(numbers: np.ndarray) -> Limits:
    return float(numbers[0]) - 0.5, float(numbers[-1]) + 0.5


# --- A run of training


def draw_curve(run: Path) -> Path:
    """Write `curve.png` to the run's folder: likelihood terms, calibration, certificates, normals, and the time of each part."""
    log, held_out = _columns(run / "log.csv"), _columns(run / "validation.csv")
    parts = [name for name in log if name.endswith("_ms")]
    smooth = {name: _smooth(log[name]) for name in ("correspondence", "pose", "nees")}
    empty = np.full(len(held_out.get("step", ())), np.nan)
    # Title, limits of y, and lines: of which log, the values, the color, and the label.
    panels: list[tuple[str, Limits | None, list[tuple[dict[str, np.ndarray], np.ndarray, str, str]]]] = [
        (f"{name} likelihood per match", None, [(log, log[name], _PALE, ""), (log, smooth[name], _BLUE, "")])
        for name in ("correspondence", "pose")
    ]
    nees = [(log, smooth["nees"], _BLUE, "training"), (held_out, held_out.get("nees", empty), _ORANGE, "held out, true pose")]
    panels.append(("mean of d'(2C)^-1 d (3 = calibrated)", (2.0, 4.0), nees))
    panels.append(("certified fraction", (0.0, 1.05), [(log, log["certified"], _BLUE, "")]))
    normals = [("normal_rmse", _BLUE, "RMSE"), ("normal_median", _ORANGE, "median")]
    errors = [(held_out, held_out.get(name, empty), color, label) for name, color, label in normals]
    panels.append(("normals of held-out shapes, in degrees", None, errors))
    times = [(log, log[name], color, name[:-3]) for name, color in zip(parts, _PARTS, strict=True)]
    panels.append(("time of the parts of a step, in ms", None, times))
    chart = Chart(*_SIZE)
    for i, (title, limits, lines) in enumerate(panels):
        left, top = 70 + 565 * (i % 3), 60 + 420 * (i // 3)
        y = limits or _limits(np.concatenate([values for _, values, _, _ in lines]))
        panel = Panel(chart, (left, top, left + 460, top + 295), title, "step", _around(log["step"]), y)
        for rows, values, color, label in lines:
            if len(values):
                panel.line(np.column_stack([rows["step"], values]), color, label=label)
        panel.finish()
    chart.save(run / "curve.png")
    return run / "curve.png"


def _limits(values: np.ndarray) -> Limits:
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, (1, 99)).tolist() if len(finite) else (0.0, 1.0)
    margin = 0.1 * (high - low) or 0.5
    return (0.0 if low >= 0.0 else low - margin), high + margin


def _columns(path: Path) -> dict[str, np.ndarray]:
    rows = read_log(path)
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]} if rows else {}


def _smooth(values: np.ndarray, window: int = 15) -> np.ndarray:
    """Running mean over the last values, shorter at the start. A stage without the measure is a gap."""
    windows = [values[max(0, end - window) : end] for end in range(1, len(values) + 1)]
    return np.array([some[np.isfinite(some)].mean() if np.isfinite(some).any() else np.nan for some in windows])


# --- Line charts by Pillow: panels with a title, a legend, axes, ticks, a grid, lines, dots and areas.
#
# matplotlib, which draws the charts of the benchmarks, is not a dependency of the package; the few kinds of marks that odometry and
# training need are little code. Everything is drawn at twice its size and halved, which smooths the edges.

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
