"""`poli bench pca`: our PCA against Open3D's and small_gicp's, 24 neighbours, same points, same threads, same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from poli.bench.report import Report, publish
from poli.data import read
from poli.data.simulate import SENSORS, scan_of
from poli.errors import InputError, MissingExtra, PoliError
from poli.estimation import pca
from poli.show.figure import pyplot, save_figure
from poli.threads import thread_count

_NEIGHBOURS = 24
_TURNS = 3
_SIZES = (1_000, 10_000, 30_000, 100_000)


def run(out: Path, json_path: Path | None, scan: Path | None, repeats: int) -> None:
    points = read(scan).points.astype(np.float64) if scan else scan_of("town", SENSORS["os2_128"]).points.astype(np.float64)
    sizes = [n for n in _SIZES if n <= len(points)]
    if not sizes:
        raise InputError(f"{scan}: {len(points)} points; at least {_SIZES[0]} are needed")
    rng = np.random.default_rng(0)
    times: dict[int, dict[str, float]] = {}
    for n in sizes:
        chosen = np.ascontiguousarray(points[rng.permutation(len(points))[:n]])
        times[n] = _medians(_contestants(chosen), repeats)
    figures: dict[str, object] = {"times_ms": {str(n): t for n, t in times.items()}}
    for n in sizes:
        figures[f"ratio_open3d_{n}"] = times[n]["poli"] / times[n]["open3d"]
        figures[f"ratio_small_gicp_{n}"] = times[n]["poli"] / times[n]["small_gicp"]
    names = ("poli", "poli with normals", "open3d", "small_gicp")
    rows = [[str(n), *(f"{t[name]:.2f}" for name in names), f"{t['poli'] / t['open3d']:.2f}"] for n, t in times.items()]
    source = "the given scan" if scan else "a simulated town, OS2-128"
    notes = [f"{_NEIGHBOURS} neighbours, {thread_count()} threads, median of {repeats} runs; points drawn from {source}"]
    columns = ["points", "poli ms", "poli with normals ms", "open3d ms", "small_gicp ms", "poli / open3d"]
    command = f"poli bench pca --repeats {repeats}" + (" --scan SCAN" if scan else "")
    publish(Report("PCA against Open3D and small_gicp", command, columns, rows, notes, figures), "pca", out, json_path)
    _plot(times, out / "pca.png")


def _contestants(points: np.ndarray) -> dict[str, Callable[[], object]]:
    try:
        import open3d
        import small_gicp
    except ModuleNotFoundError:
        raise MissingExtra("comparing with Open3D and small_gicp", "bench") from None
    except (ImportError, OSError) as error:
        raise PoliError(f"open3d is installed but does not load: {error}; it needs system libraries, see the README") from None
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))
    other = small_gicp.PointCloud(points)

    def by_open3d() -> None:
        cloud.covariances = open3d.utility.Matrix3dVector()  # kept ones would be reused
        cloud.estimate_covariances(open3d.geometry.KDTreeSearchParamKNN(_NEIGHBOURS))

    return {
        "poli": lambda: pca(points, k=_NEIGHBOURS),
        "poli with normals": lambda: pca(points, k=_NEIGHBOURS).normals,
        "open3d": by_open3d,
        "small_gicp": lambda: small_gicp.estimate_covariances(other, num_neighbors=_NEIGHBOURS, num_threads=thread_count()),
    }


def _medians(contestants: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Milliseconds. The contestants take turns, so that a slow moment of the machine hits them all; a turn is a burst of runs after
    two that do not count, because the threads of the one before go on spinning for some milliseconds."""
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(_TURNS):
        for name, work in contestants.items():
            for i in range(2 + max(1, repeats // _TURNS)):
                start = time.perf_counter()
                work()
                if i >= 2:
                    samples[name].append(1e3 * (time.perf_counter() - start))
    return {name: float(np.median(values)) for name, values in samples.items()}


def _plot(times: dict[int, dict[str, float]], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 4))
    for name in next(iter(times.values())):
        axes.loglog(list(times), [t[name] for t in times.values()], marker="o", label=name)
    axes.set(xlabel="points", ylabel="ms", title=f"Covariances of {_NEIGHBOURS} neighbours")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    save_figure(figure, path)
    plt.close(figure)
