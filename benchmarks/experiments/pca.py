"""PCA of 24 neighbors against Open3D and small_gicp, on the same points with the same threads.

Example: python -m benchmarks pca --scan scan.bin --json pca.json
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import option
from benchmarks.report import Plot, Report, Table, column_list
from benchmarks.rivals.pca import NEIGHBORS, pca_rivals
from benchmarks.timing import medians, same_threads, stopwatch
from poli.data import read
from poli.data.simulate import SENSORS, scan_of
from poli.errors import InputError
from poli.estimation import pca
from poli.threads import thread_count

_SIZES = (1_000, 10_000, 30_000, 100_000)


@dataclass(frozen=True)
class Options:
    scan: Path | None = option(None, "scan file to downsample to each size; default: a simulated town")
    repeats: int = option(21, "runs of each; the median is reported", least=1)


_TABLE = Table(
    column_list(points="{points}"),
    across="title",
    cell="{ms:.2f}",
    then=[("poli / open3d", lambda by: f"{by['poli ms']['ms'] / by['open3d ms']['ms']:.2f}")],
)
_PLOT = Plot("points", "ms", "method", "points", "ms", kind="loglog", title=f"Covariances of {NEIGHBORS} neighbors")


def run(options: Options) -> Iterator[Report]:
    scan = read(options.scan) if options.scan else scan_of("town", SENSORS["os2_128"])
    points = scan.points.astype(np.float64)
    sizes = [n for n in _SIZES if n <= len(points)]
    if not sizes:
        raise InputError(f"{options.scan}: {len(points)} points; at least {_SIZES[0]} are needed")
    rng = np.random.default_rng(0)
    records: list[dict[str, Any]] = []
    with same_threads():
        for n in sizes:
            chosen = np.ascontiguousarray(points[rng.permutation(len(points))[:n]])
            contestants = {name: stopwatch(work) for name, work in _contestants(chosen).items()}
            for name, parts in medians(contestants, options.repeats).items():
                records.append({"points": n, "method": name, "title": f"{name} ms", "ms": parts["total"]})
    ms = {(r["method"], r["points"]): r["ms"] for r in records}
    summary = {f"ratio_{rival}_{n}": ms["poli", n] / ms[rival, n] for n in sizes for rival in ("open3d", "small_gicp")}
    source = "the given scan" if options.scan else "a simulated town, OS2-128"
    notes = [f"{NEIGHBORS} neighbors, {thread_count()} threads, median of {options.repeats} runs; points drawn from {source}"]
    yield Report("pca", "PCA against Open3D and small_gicp", records, _TABLE, notes, summary, {"pca": _PLOT})


def _contestants(points: np.ndarray) -> dict[str, Callable[[], object]]:
    mine = {"poli": lambda: pca(points, k=NEIGHBORS), "poli with normals": lambda: pca(points, k=NEIGHBORS).normals}
    return {**mine, **pca_rivals(points)}
