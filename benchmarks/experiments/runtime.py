"""Time and memory of an estimate by number of points and stage, against our PCA, Open3D and small_gicp.

With POLI_NUM_THREADS=1, for one thread.

Example: python -m benchmarks runtime --real sequences --json runtime.json
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.sized_clouds import SizedCloud, real_cloud, simulated_cloud, vlp16_sweep
from benchmarks.fresh_process import FIRST_POINTS, first_call_seconds, peak_mb
from benchmarks.options import MODEL, REAL, option
from benchmarks.report import Column, Plot, Report, Table
from benchmarks.rivals.pca import NEIGHBORS, pca_rivals
from benchmarks.timing import STAGES, medians, same_threads, stage_times, stopwatch
from poli.errors import DensityWarning, InputError
from poli.estimation import estimate, pca
from poli.voxels import voxel_downsample

MODELS = ("lidar",)

SIZES = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 60_000, 120_000)
_LEAST_SIZE = 100
_VOXEL = 0.2  # meters
_NAMES = {"poli": "POLI", "pca": "our PCA", "open3d": "Open3D", "small_gicp": "small_gicp"}


@dataclass(frozen=True)
class Options:
    model: str = option("lidar", MODEL)
    sizes: tuple[int, ...] = option(SIZES, "numbers of points, separated by commas")
    real: Path | None = option(None, REAL)
    repeats: int = option(11, "runs of each; the median is reported", least=1)
    first_call: bool = option(True, "also time a first call with an empty kernel cache")

    def __post_init__(self) -> None:
        if len(set(self.sizes)) < 2 or min(self.sizes) < _LEAST_SIZE:
            raise InputError(f"sizes are {self.sizes}; give two or more of at least {_LEAST_SIZE}: an exponent is fitted to them")


_TABLE = Table(
    [Column("N", lambda r: f"{r['points']}{', real' if r['scan'] == 'real' else ''}")],
    [
        Column("POLI ms", "{times_ms[poli]:.1f}"),
        *(Column(stage, f"{{stages_ms[{stage}]:.1f}}") for stage in STAGES),
        *(Column(title, f"{{times_ms[{name}]:.1f}}") for name, title in _NAMES.items() if name != "poli"),
        Column("POLI / Open3D", "{ratio_open3d:.2f}"),
        Column("POLI / small_gicp", "{ratio_small_gicp:.2f}"),
        Column("peak MB", lambda r: "not known" if r["peak_mb"] is None else f"{r['peak_mb']:.1f}"),
    ],
)


def run(options: Options) -> Iterator[Report]:
    root, first_call = options.real, None
    with same_threads() as threads, warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        clouds = {"simulated": _measure(options, "simulated", simulated_cloud)}
        if root:
            clouds["real"] = _measure(options, "real", lambda count: real_cloud(root, count))
        vlp16 = _vlp16(options)
        if options.first_call:
            first_call = first_call_seconds(simulated_cloud(FIRST_POINTS).points, options.model)
    used = "1 thread" if threads == 1 else f"{threads} threads"
    summary = {"vlp16_ms": vlp16["total_ms"], "vlp16": vlp16, "threads": threads, "repeats": options.repeats}
    notes = [
        f"milliseconds, medians of {options.repeats} runs, {used} for all, contestants in turns; points are not "
        f"voxelized; model {Path(options.model).name}; PCA of {NEIGHBORS} neighbors",
        "the stages come from a second series of runs, so their sum differs slightly from POLI's time, that of `poli.estimate`",
        "peak: additional resident memory of `poli.estimate` in a fresh process with model and kernels loaded; the input points "
        "do not count, the returned ellipsoids do",
    ]
    lines = []
    for kind, measured in clouds.items():
        exponents, prefix = _exponents(measured), "real_" if kind == "real" else ""
        summary |= {f"{prefix}exponent": exponents["poli"], f"{prefix}exponents": exponents}
        for r in measured:
            summary |= {f"{prefix}{name}_{r['points']}": r[name] for name in r if name.startswith("ratio_") or name == "peak_mb"}
            lines += [
                {"scan": kind, "points": r["points"], "ms": ms, "method": f"{_NAMES[name]}, $N^{{{exponents[name]:.2f}}}$"}
                for name, ms in r["times_ms"].items()
            ]
        for source in dict.fromkeys(r["source"] for r in measured):
            sizes = ", ".join(str(r["points"]) for r in measured if r["source"] == source)
            notes.append(f"{kind}, {sizes} points: drawn at random from {source}")
        grown = ", ".join(f"{_NAMES[name]} {exponent:.2f}" for name, exponent in exponents.items())
        notes.append(f"{kind}, exponents of N: {grown}")
    notes.append(
        f"a VLP-16 scan of {vlp16['returns']:.0f} returns: {vlp16['voxel_ms']:.1f} ms to voxelize at {_VOXEL} m, "
        f"{vlp16['estimate_ms']:.1f} ms to estimate the {vlp16['points']:.0f} remaining points, {vlp16['total_ms']:.1f} ms in total"
    )
    if first_call:
        cold, warm = first_call
        summary |= {"first_call_cold_s": cold, "first_call_warm_s": warm}
        notes.append(f"`import poli` and an estimate of {FIRST_POINTS} points: {cold:.1f} s with an empty cache, then {warm:.2f} s")
    plot = Plot("points", "ms", "method", "points", "ms", "scan", kind="loglog", title="Covariances of a {panel} scan")
    records, name = [r for measured in clouds.values() for r in measured], "runtime" if threads > 1 else "runtime_one_thread"
    title = f"Runtime and memory of an estimate, {used}"
    yield Report(name, title, records, _TABLE, notes, summary, {name: partial(plot.draw, lines)})


def _measure(options: Options, kind: str, cloud_of: Callable[[int], SizedCloud]) -> list[dict[str, Any]]:
    """One record per size; times are medians in milliseconds."""
    records = []
    for n in sorted(set(options.sizes)):
        cloud = cloud_of(n)
        contest = {name: stopwatch(work) for name, work in _contestants(cloud.points, options.model).items()}
        times = {name: parts["total"] for name, parts in medians(contest, options.repeats).items()}
        stages = medians({"": partial(stage_times, cloud.points, options.model)}, options.repeats)[""]
        ratios = {f"ratio_{rival}": times["poli"] / times[rival] for rival in _NAMES if rival != "poli"}
        peak = peak_mb(cloud.points, options.model)
        found = {"scan": kind, "points": n, "times_ms": times, **ratios, "stages_ms": stages}
        records.append({**found, "peak_mb": peak, "source": cloud.source})
    return records


def _exponents(records: list[dict[str, Any]]) -> dict[str, float]:
    """Exponents of the number of points, by contestant: a least-squares fit of the logarithms over all sizes."""
    sizes = np.log([r["points"] for r in records])
    return {name: float(np.polyfit(sizes, np.log([r["times_ms"][name] for r in records]), 1)[0]) for name in _NAMES}


def _contestants(points: np.ndarray, model: str) -> dict[str, Callable[[], object]]:
    return {"poli": lambda: estimate(points, model), "pca": lambda: pca(points, k=NEIGHBORS), **pca_rivals(points)}


def _vlp16(options: Options) -> dict[str, float]:
    """Milliseconds from a scan to its ellipsoids, and its number of points before and after voxelization."""
    scan = vlp16_sweep()

    def once() -> dict[str, float]:
        start = time.perf_counter()
        thinned = voxel_downsample(scan, _VOXEL)
        between = time.perf_counter()
        estimate(thinned, options.model, warn=False)
        end = time.perf_counter()
        return {"voxel_ms": 1e3 * (between - start), "estimate_ms": 1e3 * (end - between), "total_ms": 1e3 * (end - start)}

    return {**medians({"": once}, options.repeats)[""], "returns": len(scan), "points": len(voxel_downsample(scan, _VOXEL))}
