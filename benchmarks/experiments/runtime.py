"""`python -m benchmarks runtime`: what an estimate costs from 5,000 to 120,000 points, in time and memory, against the PCA of others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.data.sized_clouds import SizedCloud, real_cloud, simulated_cloud, vlp16_sweep
from benchmarks.fresh_process import FIRST_POINTS, first_call_seconds, peak_mb
from benchmarks.report import Report, publish
from benchmarks.rivals.pca import NEIGHBOURS, pca_rivals
from benchmarks.timing import STAGES, medians, same_threads, stage_times, stopwatch
from poli.errors import InputError
from poli.estimation import estimate, pca
from poli.show.figure import pyplot, save_figure
from poli.voxels import voxel_downsample

SIZES = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 60_000, 120_000)
_LEAST_SIZE = 100
_VOXEL = 0.2  # metres
_NAMES = {"poli": "POLI", "pca": "our PCA", "open3d": "Open3D", "small_gicp": "small_gicp"}


@dataclass(frozen=True)
class RuntimeBench:
    model: str = "lidar"
    sizes: tuple[int, ...] = SIZES
    repeats: int = 11
    real: Path | None = None  # a folder of real sequences, as `real_sequences` has them
    first_call: bool = True  # is it timed?

    def __post_init__(self) -> None:
        if len(set(self.sizes)) < 2 or min(self.sizes) < _LEAST_SIZE:
            raise InputError(f"sizes are {self.sizes}; give two or more of at least {_LEAST_SIZE}: an exponent is fitted to them")


@dataclass(frozen=True)
class Measured:
    """Clouds of one source. All by size; times are medians in milliseconds."""

    times: dict[int, dict[str, float]]  # by contestant
    stages: dict[int, dict[str, float]]
    peaks: dict[int, float | None]  # MB
    sources: dict[int, str]

    @property
    def exponents(self) -> dict[str, float]:
        """Of the number of points, by contestant: least squares through the logarithms of all sizes."""
        sizes = np.log(list(self.times))
        return {name: float(np.polyfit(sizes, np.log([t[name] for t in self.times.values()]), 1)[0]) for name in _NAMES}

    def figures(self, prefix: str = "") -> dict[str, object]:
        found: dict[str, object] = {}
        for n, times in self.times.items():
            found |= {f"ratio_{rival}_{n}": times["poli"] / times[rival] for rival in _NAMES if rival != "poli"}
            found[f"peak_mb_{n}"] = self.peaks[n]
        found |= {"exponent": self.exponents["poli"], "exponents": self.exponents}
        tables: dict[str, Mapping[int, object]] = {
            "times_ms": self.times,
            "stages_ms": self.stages,
            "peak_mb": self.peaks,
            "sources": self.sources,
        }
        found |= {name: {str(n): value for n, value in table.items()} for name, table in tables.items()}
        return {f"{prefix}{name}": value for name, value in found.items()}

    def rows(self, suffix: str = "") -> list[list[str]]:
        rows = []
        for n, times in self.times.items():
            peak = self.peaks[n]
            row = [f"{times['poli']:.1f}", *(f"{self.stages[n][stage]:.1f}" for stage in STAGES)]
            row += [*(f"{times[name]:.1f}" for name in _NAMES if name != "poli"), f"{times['poli'] / times['open3d']:.2f}"]
            rows.append([f"{n}{suffix}", *row, "not known" if peak is None else f"{peak:.1f}"])
        return rows

    def notes(self, kind: str) -> list[str]:
        """Where the points come from, and how times grow with their number."""
        told: dict[str, list[str]] = {}
        for n, source in self.sources.items():
            told.setdefault(source, []).append(str(n))
        grown = ", ".join(f"{_NAMES[name]} {exponent:.2f}" for name, exponent in self.exponents.items())
        drawn = [f"{kind}, {', '.join(sizes)} points: drawn at random from {source}" for source, sizes in told.items()]
        return [*drawn, f"{kind}, exponents of N: {grown}"]


def run(bench: RuntimeBench, out: Path, json_path: Path | None, command: str) -> None:
    root, first_call = bench.real, None
    with same_threads() as threads:
        simulated = _measure(bench, simulated_cloud)
        real = _measure(bench, lambda count: real_cloud(root, count)) if root else None
        vlp16 = _vlp16(bench)
        if bench.first_call:
            first_call = first_call_seconds(simulated_cloud(FIRST_POINTS).points, bench.model)
    figures = {**simulated.figures(), "vlp16_ms": vlp16["total_ms"], "vlp16": vlp16, "threads": threads, "repeats": bench.repeats}
    rows, notes = simulated.rows(), simulated.notes("simulated")
    if real:
        figures, rows, notes = {**figures, **real.figures("real_")}, rows + real.rows(", real"), notes + real.notes("real")
    notes = [
        f"milliseconds, medians of {bench.repeats} runs, {threads} threads for everyone, contestants in turns; points are not "
        f"voxelised; model {Path(bench.model).name}; PCA of {NEIGHBOURS} neighbours",
        "the stages are of a second series of runs, so that their sum is not quite POLI's time, which is that of `poli.estimate`",
        "peak: resident memory of `poli.estimate` in a fresh process above what it held before, with model and kernels loaded; the "
        "input points do not count, the ellipsoids that come back do",
        *notes,
        f"a sweep of a VLP-16 of {vlp16['returns']:.0f} returns: {vlp16['voxel_ms']:.1f} ms to voxelise at {_VOXEL} m, "
        f"{vlp16['estimate_ms']:.1f} ms to estimate the {vlp16['points']:.0f} points left, {vlp16['total_ms']:.1f} ms together",
    ]
    if first_call:
        cold, warm = first_call
        figures |= {"first_call_cold_s": cold, "first_call_warm_s": warm}
        notes.append(f"`import poli` and an estimate of {FIRST_POINTS} points: {cold:.1f} s with an empty cache, then {warm:.2f} s")
    columns = ["N", "POLI ms", *STAGES, *(name for name in _NAMES.values() if name != "POLI"), "POLI / Open3D", "peak MB"]
    publish(Report("Runtime and memory of an estimate", command, columns, rows, notes, figures), "runtime", out, json_path)
    _plot({"simulated": simulated} | ({"real": real} if real else {}), out / "runtime.png")


def _measure(bench: RuntimeBench, cloud_of: Callable[[int], SizedCloud]) -> Measured:
    measured = Measured({}, {}, {}, {})
    for n in sorted(set(bench.sizes)):
        cloud = cloud_of(n)
        contest = medians({name: stopwatch(work) for name, work in _contestants(cloud.points, bench.model).items()}, bench.repeats)
        measured.times[n] = {name: parts["total"] for name, parts in contest.items()}
        measured.stages[n] = medians({"": lambda points=cloud.points: stage_times(points, bench.model)}, bench.repeats)[""]  # type: ignore[misc]
        measured.peaks[n] = peak_mb(cloud.points, bench.model)
        measured.sources[n] = cloud.source
    return measured


def _contestants(points: np.ndarray, model: str) -> dict[str, Callable[[], object]]:
    return {"poli": lambda: estimate(points, model, warn=False), "pca": lambda: pca(points, k=NEIGHBOURS), **pca_rivals(points)}


def _vlp16(bench: RuntimeBench) -> dict[str, float]:
    """Milliseconds of a sweep's way to ellipsoids, and how many points it has before and after."""
    scan = vlp16_sweep()

    def once() -> dict[str, float]:
        start = time.perf_counter()
        thinned = voxel_downsample(scan, _VOXEL)
        between = time.perf_counter()
        estimate(thinned, bench.model, warn=False)
        end = time.perf_counter()
        return {"voxel_ms": 1e3 * (between - start), "estimate_ms": 1e3 * (end - between), "total_ms": 1e3 * (end - start)}

    return {**medians({"": once}, bench.repeats)[""], "returns": len(scan), "points": len(voxel_downsample(scan, _VOXEL))}


def _plot(panels: dict[str, Measured], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, len(panels), figsize=(6 * len(panels), 4), squeeze=False, sharey=True)
    for panel, (title, measured) in zip(axes[0], panels.items(), strict=True):
        for name, exponent in measured.exponents.items():
            times = [t[name] for t in measured.times.values()]
            panel.loglog(list(measured.times), times, marker="o", label=f"{_NAMES[name]}, $N^{{{exponent:.2f}}}$")
        panel.set(xlabel="points", ylabel="ms", title=f"Covariances of a {title} scan")
        panel.grid(True, which="both", alpha=0.3)
        panel.legend()
    save_figure(figure, path)
    plt.close(figure)
