"""Normals, registration and calibration on objects, against PCA, KISS-Matcher and true normals.

The protocol follows the paper (Section "Object Pose Estimation", SD): N points drawn twice from a mesh in the unit sphere, rotated
by up to 60 degrees; success is a rotation error of at most 10 degrees.

Example: python -m benchmarks objects --mesh dragon.ply,happy_buddha.ply
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import MODEL, option
from benchmarks.parallel import in_processes
from benchmarks.report import Plot, Report, Table, column_list, mean_record
from benchmarks.rivals.registrars import CONTESTANTS, NEIGHBORS, Cloud
from poli.data.shapes import Mesh, procedural_mesh, read_mesh
from poli.errors import InputError
from poli.estimation import estimate, pca
from poli.kdtree.tree import KDTree
from poli.se3 import so3_exp
from poli.show.figure import pyplot, save_figure
from poli.threads import thread_count

_CLOUDS = 20  # per object and N, for normals and calibration


@dataclass(frozen=True)
class Options:
    mesh: tuple[Path, ...] = option((), ".ply or .obj meshes, separated by commas; default: our procedural shapes")
    model: str = option("objects", MODEL)
    pairs: int = option(100, "pairs per object and number of points", least=1)
    seed: int = option(0, "random seed of the pairs", least=0)
    normal_sizes: tuple[int, ...] = (300, 500, 1000)
    sizes: tuple[int, ...] = (300, 400, 500, 600, 700, 800, 900, 1000)
    max_rotation: float = 60.0  # degrees
    tolerance: float = 10.0  # degrees


@dataclass(frozen=True)
class NormalErrors:
    """Errors of normals in degrees, ignoring sign."""

    rmse: float
    median: float

    @staticmethod
    def of(normals: Sequence[np.ndarray], truth: Sequence[np.ndarray]) -> NormalErrors:
        cosine = np.abs(np.einsum("ni,ni->n", np.concatenate(list(normals)), np.concatenate(list(truth))))
        angles = np.degrees(np.arccos(np.minimum(cosine, 1.0)))
        return NormalErrors(float(np.sqrt(np.mean(angles**2))), float(np.median(angles)))


_TABLE = Table(
    column_list(object="{object}", N="{N}"),
    across="method",
    cell=lambda r: f"{100 * r['success']:.{1 if r['N'] == 'mean' else 0}f}",
)


def run(options: Options) -> Iterator[Report]:
    objects = load_objects(options.mesh)
    normals = {name: {n: normal_errors(mesh, n, options) for n in options.normal_sizes} for name, mesh in objects.items()}
    distances = {name: squared_distances(mesh, options) for name, mesh in objects.items()}
    records = _success_rates(objects, options)
    shown: list[Any] = []
    for name in objects:
        mine = [r for r in records if r["object"] == name]
        shown += mine
        shown += [{**mean_record([r for r in mine if r["method"] == method]), "N": "mean"} for method in CONTESTANTS]
    notes = [f"success: rotation error of at most {options.tolerance:.0f} degrees, {options.pairs} pairs each, in percent"]
    notes += [f"{name}: {how.about}" for name, how in CONTESTANTS.items()]
    for name in objects:
        for n, e in normals[name].items():
            notes.append(
                f"normals, {name} N={n}: POLI {e['poli_rmse']:.1f} / {e['poli_median']:.1f} degrees (RMSE / median); the best PCA "
                f"{e['pca_rmse']:.1f} (k={e['pca_rmse_k']:.0f}) / {e['pca_median']:.1f} (k={e['pca_median_k']:.0f}); "
                f"{100 * (1 - e['poli_rmse'] / e['pca_rmse']):.1f} % / {100 * (1 - e['poli_median'] / e['pca_median']):.1f} % lower"
            )
        notes.append(f"calibration, {name}: mean of d'(2C)^-1 d is {distances[name].mean():.2f} (3 when calibrated)")
    summary = {
        "normals": normals,
        "calibration": {name: float(values.mean()) for name, values in distances.items()},
        "success_mean": {
            name: {r["method"]: r["success"] for r in shown if (r["object"], r["N"]) == (name, "mean")} for name in objects
        },
    }
    plots: dict[str, Plot | Callable[[Path], None]] = {
        "objects": Plot("N", "success", "method", "points", "success, %", "object", scale=100, ylim=(-2, 102)),
        "objects_calibration": partial(_plot_calibration, distances),
    }
    yield Report("objects", "Objects: registration, normals and calibration", records, _TABLE, notes, summary, plots, shown)


def load_objects(paths: Sequence[Path]) -> dict[str, Mesh]:
    """Load meshes by file name; without files, return four procedural shapes not used for training."""
    if len({path.stem for path in paths}) < len(paths):
        raise InputError(f"two meshes have the same name: {', '.join(path.name for path in paths)}; rename one")
    if paths:
        return {path.stem: read_mesh(path).normalized() for path in paths}
    return {f"shape {seed}": procedural_mesh(seed) for seed in range(2_000_000, 2_000_004)}


def normal_errors(mesh: Mesh, count: int, config: Options) -> dict[str, float]:
    """Normal errors of POLI, and of PCA with the best k for each measure."""
    rng = np.random.default_rng([config.seed, count])
    clouds = [mesh.sample(count, rng) for _ in range(_CLOUDS)]
    truth = [normals for _, normals in clouds]
    mine = NormalErrors.of([estimate(points, config.model).normals for points, _ in clouds], truth)
    rivals = {k: NormalErrors.of([pca(points, k=k).normals for points, _ in clouds], truth) for k in NEIGHBORS}
    by_rmse = min(rivals, key=lambda k: rivals[k].rmse)
    by_median = min(rivals, key=lambda k: rivals[k].median)
    return {
        "poli_rmse": mine.rmse,
        "poli_median": mine.median,
        "pca_rmse": rivals[by_rmse].rmse,
        "pca_rmse_k": by_rmse,
        "pca_median": rivals[by_median].median,
        "pca_median_k": by_median,
    }


def squared_distances(mesh: Mesh, config: Options) -> np.ndarray:
    """d'(2C)^-1 d of nearest points between independent clouds of one surface at the true pose: chi-square with 3 degrees of
    freedom if the residuals are Gaussian."""
    rng = np.random.default_rng([config.seed, 1])
    found = []
    for count in config.normal_sizes:
        for _ in range(_CLOUDS):
            q, p = mesh.sample(count, rng)[0], mesh.sample(count, rng)[0]
            d = q - p[KDTree(p).nearest(1, q)[1][:, 0]]
            found.append(0.5 * np.einsum("ni,nij,nj->n", d, np.linalg.inv(estimate(q, config.model).covariances), d))
    return np.concatenate(found)


def _success_rates(objects: dict[str, Mesh], options: Options) -> list[dict[str, Any]]:
    """Success rates by object, contestant and N. Each process handles one object and N at a time, with one thread."""
    jobs = [(name, n) for name in objects for n in options.sizes]
    answers = in_processes(partial(_rates, options), [(objects[name], n) for name, n in jobs], thread_count(), "registering")
    found = zip(jobs, answers, strict=True)
    return [{"object": name, "N": n, "method": m, "success": rate} for (name, n), rates in found for m, rate in rates.items()]


def _rates(config: Options, job: tuple[Mesh, int]) -> dict[str, float]:
    """Share of pairs that each contestant registers, with the best of its settings."""
    mesh, count = job
    won = {contestant: np.zeros(len(how.ways)) for contestant, how in CONTESTANTS.items()}
    for pair in range(config.pairs):
        source, target, R_true = draw_pair(mesh, count, config, pair)
        source, target = with_normals(source, config.model), with_normals(target, config.model)
        for contestant, how in CONTESTANTS.items():
            for i, way in enumerate(how.ways):
                R = way(source, target)
                won[contestant][i] += R is not None and rotation_error(R, R_true) <= config.tolerance
    return {contestant: float(counts.max()) / config.pairs for contestant, counts in won.items()}


def draw_pair(mesh: Mesh, count: int, config: Options, pair: int) -> tuple[Cloud, Cloud, np.ndarray]:
    """Draw source and target with their true normals, and the rotation between them."""
    rng = np.random.default_rng([config.seed, count, pair])
    axis = rng.standard_normal(3)
    R = so3_exp(np.deg2rad(config.max_rotation) * rng.random() * axis / np.linalg.norm(axis))
    p, p_normals = mesh.sample(count, rng)
    q, q_normals = mesh.sample(count, rng)
    return Cloud.of(p, {"true": p_normals}), Cloud.of(q @ R.T, {"true": q_normals @ R.T}), R


def with_normals(cloud: Cloud, model: str) -> Cloud:
    fields = {"poli": estimate(cloud.points, model)} | {f"pca{k}": pca(cloud.points, k=k) for k in NEIGHBORS}
    return Cloud.of(cloud.points, {**cloud.normals, **{kind: field.axes[:, :, 0] for kind, field in fields.items()}})


def rotation_error(R: np.ndarray, R_true: np.ndarray) -> float:
    """Degrees."""
    return float(np.degrees(np.arccos(np.clip(0.5 * (np.trace(R.T @ R_true) - 1.0), -1.0, 1.0))))


def _plot_calibration(distances: dict[str, np.ndarray], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6.5, 4.2))
    edges = np.linspace(0.0, 15.0, 61)
    for name, values in distances.items():
        axes.hist(values, edges, density=True, histtype="step", lw=1.5, label=f"{name}, mean {values.mean():.2f}")
    x = np.linspace(1e-3, 15.0, 400)
    axes.plot(x, np.sqrt(x / (2.0 * np.pi)) * np.exp(-0.5 * x), "k", lw=1, label="chi-square, 3 degrees of freedom")
    axes.set(xlabel="d'(2C)$^{-1}$d of held-out matches", ylabel="density")
    axes.legend()
    save_figure(figure, path)
    plt.close(figure)
