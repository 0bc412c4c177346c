"""Plot the learning curve of a training run from its logs."""

from pathlib import Path

import numpy as np

from poli.learn.logs import read_log
from poli.show.figure import pyplot, save_figure

_PARTS = ("grouping", "network", "layer", "backward")


def draw_curve(run: Path) -> Path:
    """Write `curve.png` to the run's folder: likelihood terms, calibration, certificates, normals, and the time of each part."""
    plt = pyplot()
    log, validation = _columns(run / "log.csv"), _columns(run / "validation.csv")
    figure, axes = plt.subplots(2, 3, figsize=(14, 7))
    (data, pose, nees), (certified, normals, times) = axes
    for panel, name, title in ((data, "correspondence", "correspondence likelihood"), (pose, "pose", "pose likelihood")):
        panel.plot(log["step"], log[name], color="0.8", lw=0.7)
        panel.plot(log["step"], _smooth(log[name]), lw=1.6)
        panel.set(title=f"{title} per match", xlabel="step")
    for rows, label in ((log, "training"), (validation, "held out, true pose")):
        if "nees" in rows:
            nees.plot(rows["step"], _smooth(rows["nees"]), label=label)
    nees.axhline(3.0, color="k", lw=0.8, ls=":")
    nees.set(title="mean of d'(2C)$^{-1}$d (3 = calibrated)", xlabel="step", ylim=(2.0, 4.0))
    nees.legend()
    certified.plot(log["step"], log["certified"])
    certified.set(title="certified fraction", xlabel="step", ylim=(0.0, 1.05))
    if "normal_rmse" in validation:
        normals.plot(validation["step"], validation["normal_rmse"], marker=".", label="RMSE")
        normals.plot(validation["step"], validation["normal_median"], marker=".", label="median")
        normals.legend()
    normals.set(title="normals, held-out shapes", xlabel="step", ylabel="degrees")
    medians = [float(np.median(log[f"{part}_ms"])) for part in _PARTS]
    times.bar(_PARTS, medians)
    times.set(title="median time of the parts of a step", ylabel="ms")
    figure.tight_layout()
    path = run / "curve.png"
    save_figure(figure, path)
    plt.close(figure)
    return path


def _columns(path: Path) -> dict[str, np.ndarray]:
    rows = read_log(path)
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]} if rows else {}


def _smooth(values: np.ndarray, window: int = 15) -> np.ndarray:
    """Running mean over the last values, shorter at the start."""
    return np.array([np.nanmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)])
