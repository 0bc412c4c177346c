"""`python -m benchmarks pca`: our PCA against Open3D's and small_gicp's, 24 neighbours, same points, same threads, same run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import Report, publish
from benchmarks.rivals.pca import NEIGHBOURS, pca_rivals
from benchmarks.timing import medians, same_threads, stopwatch
from poli.data import read
from poli.data.simulate import SENSORS, scan_of
from poli.errors import InputError
from poli.estimation import pca
from poli.show.figure import pyplot, save_figure
from poli.threads import thread_count

_SIZES = (1_000, 10_000, 30_000, 100_000)


def run(out: Path, json_path: Path | None, scan: Path | None, repeats: int) -> None:
    points = read(scan).points.astype(np.float64) if scan else scan_of("town", SENSORS["os2_128"]).points.astype(np.float64)
    sizes = [n for n in _SIZES if n <= len(points)]
    if not sizes:
        raise InputError(f"{scan}: {len(points)} points; at least {_SIZES[0]} are needed")
    rng = np.random.default_rng(0)
    times: dict[int, dict[str, float]] = {}
    with same_threads():
        for n in sizes:
            chosen = np.ascontiguousarray(points[rng.permutation(len(points))[:n]])
            contestants = {name: stopwatch(work) for name, work in _contestants(chosen).items()}
            times[n] = {name: parts["total"] for name, parts in medians(contestants, repeats).items()}
    figures: dict[str, object] = {"times_ms": {str(n): t for n, t in times.items()}}
    for n in sizes:
        figures[f"ratio_open3d_{n}"] = times[n]["poli"] / times[n]["open3d"]
        figures[f"ratio_small_gicp_{n}"] = times[n]["poli"] / times[n]["small_gicp"]
    names = ("poli", "poli with normals", "open3d", "small_gicp")
    rows = [[str(n), *(f"{t[name]:.2f}" for name in names), f"{t['poli'] / t['open3d']:.2f}"] for n, t in times.items()]
    source = "the given scan" if scan else "a simulated town, OS2-128"
    notes = [f"{NEIGHBOURS} neighbours, {thread_count()} threads, median of {repeats} runs; points drawn from {source}"]
    columns = ["points", "poli ms", "poli with normals ms", "open3d ms", "small_gicp ms", "poli / open3d"]
    command = f"python -m benchmarks pca --repeats {repeats}" + (" --scan SCAN" if scan else "")
    publish(Report("PCA against Open3D and small_gicp", command, columns, rows, notes, figures), "pca", out, json_path)
    _plot(times, out / "pca.png")


def _contestants(points: np.ndarray) -> dict[str, Callable[[], object]]:
    mine = {"poli": lambda: pca(points, k=NEIGHBOURS), "poli with normals": lambda: pca(points, k=NEIGHBOURS).normals}
    return {**mine, **pca_rivals(points)}


def _plot(times: dict[int, dict[str, float]], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 4))
    for name in next(iter(times.values())):
        axes.loglog(list(times), [t[name] for t in times.values()], marker="o", label=name)
    axes.set(xlabel="points", ylabel="ms", title=f"Covariances of {NEIGHBOURS} neighbours")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    save_figure(figure, path)
    plt.close(figure)
