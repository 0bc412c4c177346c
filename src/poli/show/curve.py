"""Plot the learning curve of a training run from its logs."""

from pathlib import Path

import numpy as np

from poli.learn.logs import read_log
from poli.show.chart import Box, Chart, Key, Limits, Panel

_PARTS = {"grouping": "#bbbbbb", "network": "#0072b2", "layer": "#009e73", "backward": "#e69f00"}  # colors by Okabe and Ito
_BLUE, _ORANGE, _PALE, _BLACK = "#0072b2", "#e69f00", "#cccccc", "#000000"
_SIZE = 1680, 840  # pixels
_ACROSS, _DOWN = (90, 660, 1230), (50, 470)  # pixels, left and upper edges of the panels
_PANEL = 420, 295  # pixels, width and height


def draw_curve(run: Path) -> Path:
    """Write `curve.png` to the run's folder: likelihood terms, calibration, certificates, normals, and the time of each part."""
    log, validation = _columns(run / "log.csv"), _columns(run / "validation.csv")
    chart = Chart(*_SIZE)
    steps = log["step"]
    x = (float(steps[0]) - 0.5, float(steps[-1]) + 0.5)
    for i, (name, title) in enumerate({"correspondence": "correspondence likelihood", "pose": "pose likelihood"}.items()):
        panel = Panel(chart, _box(i), f"{title} per match", ("step", ""), x, _around(log[name]))
        panel.line(np.column_stack([steps, log[name]]), _PALE, 1.0)
        panel.line(np.column_stack([steps, _smooth(log[name])]), _BLUE, 1.8)
        panel.finish([])
    panel = Panel(chart, _box(2), "mean of d'(2C)^-1 d (3 = calibrated)", ("step", ""), x, (2.0, 4.0))
    panel.across(3.0, _BLACK)
    keys = []
    for rows, label, color in ((log, "training", _BLUE), (validation, "held out, true pose", _ORANGE)):
        if "nees" in rows:
            panel.line(np.column_stack([rows["step"], _smooth(rows["nees"])]), color)
            keys.append(Key(label, color))
    panel.finish(keys)
    panel = Panel(chart, _box(3), "certified fraction", ("step", ""), x, (0.0, 1.05))
    panel.line(np.column_stack([steps, log["certified"]]), _BLUE)
    panel.finish([])
    _draw_normals(chart, validation, x)
    times = np.stack([log[f"{part}_ms"] for part in _PARTS])  # (parts, K)
    most = 1.5 * float(np.percentile(times, 98)) + 1e-3
    panel = Panel(chart, _box(5), "time of the parts of a step", ("step", "ms"), x, (0.0, most))
    for row, color in zip(times, _PARTS.values(), strict=True):
        panel.line(np.column_stack([steps, row]), color)
    medians = {part: float(np.median(row)) for part, row in zip(_PARTS, times, strict=True)}
    panel.finish([Key(f"{part}: median {medians[part]:.0f}", color) for part, color in _PARTS.items()])
    path = run / "curve.png"
    chart.save(path)
    return path


def _draw_normals(chart: Chart, validation: dict[str, np.ndarray], x: Limits) -> None:
    found = {name: validation.get(f"normal_{name.lower()}", np.empty(0)) for name in ("RMSE", "median")}
    values = np.concatenate(list(found.values()))
    most = float(values[np.isfinite(values)].max()) if np.isfinite(values).any() else 0.0  # recorded scans have no true normals
    panel = Panel(chart, _box(4), "normals, held-out shapes", ("step", "degrees"), x, (0.0, 1.2 * most or 1.0))
    keys = []
    for (name, errors), color in zip(found.items(), (_BLUE, _ORANGE), strict=True):
        if most:
            points = np.column_stack([validation["step"], errors])
            panel.line(points, color)
            panel.markers(points[np.isfinite(errors)], color, "o", 3.0)
            keys.append(Key(name, color))
    panel.finish(keys)


def _box(number: int) -> Box:
    left, top = _ACROSS[number % 3], _DOWN[number // 3]
    return left, top, left + _PANEL[0], top + _PANEL[1]


def _around(values: np.ndarray) -> Limits:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _columns(path: Path) -> dict[str, np.ndarray]:
    rows = read_log(path)
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]} if rows else {}


def _smooth(values: np.ndarray, window: int = 15) -> np.ndarray:
    """Running mean over the last values, shorter at the start."""
    return np.array([np.nanmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)])
