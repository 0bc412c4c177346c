"""Normals, registration and calibration on objects, against PCA, DeepFit, KISS-Matcher, TEASER++, RPM-Net and true normals.

The protocol follows the paper (Section "Object Pose Estimation", SD): N points drawn twice from a mesh in the unit sphere, rotated
by up to 60 degrees; success is a rotation error of at most 10 degrees.

Other models, such as the paper's network trained by configs/paper/objects.toml, run in the same pipeline:
`--models objects,paper.safetensors`.

Example: python -m benchmarks objects --mesh dragon.ply,happy_buddha.ply
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cache import Cache, our_state, rivals_state
from benchmarks.metrics.surface import BestErrors
from benchmarks.options import RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.provenance import weights_digest
from benchmarks.report import Plot, Record, Report, Table, column_list, mean_record, pyplot, save_figure
from benchmarks.rivals.deepfit import NEIGHBORS as DEEPFIT_NEIGHBORS
from benchmarks.rivals.deepfit import ORDERS, deepfit_normals, trained_steps
from benchmarks.rivals.pca import POWERS, Setting, setting_name, weighted_pca
from benchmarks.rivals.registrars import CONTESTANTS, NEIGHBORS, Cloud, Contestant, with_fpfh
from poli.errors import InputError
from poli.estimation import estimate, pca
from poli.kdtree.tree import KDTree
from poli.se3 import so3_exp
from poli.threads import thread_count
from poli.worlds.shapes import Mesh, procedural_mesh, read_mesh

MODELS = ("objects",)

_CLOUDS = 20  # per object and N, for normals and calibration
PCA_NEIGHBORS = (*NEIGHBORS, 32, 48)  # of PCA's normals, plain and weighted
CAREFUL = POWERS[:3]  # of the inverse distance: what a user would try without knowing the truth
POLI, PCA, DEEPFIT = "POLI", "PCA", "DeepFit"
WEIGHTED, STEEP = (f"weighted PCA, powers 1 to {max(powers)}" for powers in (CAREFUL, POWERS))


@dataclass(frozen=True)
class Options:
    mesh: tuple[Path, ...] = option((), ".ply or .obj meshes, separated by commas; default: our procedural shapes")
    models: tuple[str, ...] = option(("objects",), "names of shipped models or .safetensors files; the first is POLI in the tables")
    pairs: int = option(100, "pairs per object and number of points", least=1)
    seed: int = option(0, "random seed of the pairs", least=0)
    registration: bool = option(True, "register pairs; without, only the table of normals")
    runs: Path = option(Path("runs/objects"), RUNS)
    normal_sizes: tuple[int, ...] = (300, 500, 1000)
    sizes: tuple[int, ...] = (300, 400, 500, 600, 700, 800, 900, 1000)
    max_rotation: float = 60.0  # degrees
    tolerance: float = 10.0  # degrees

    @property
    def networks(self) -> dict[str, str]:
        """Models by their names in the tables: the first is POLI, the others have the names of their files."""
        found = {POLI: self.models[0]} | {Path(model).stem: model for model in self.models[1:]}
        if len(found) < len(self.models):
            raise InputError(f"models are {', '.join(self.models)}; two have the same name, rename one")
        return found

    @property
    def contestants(self) -> dict[str, Contestant]:
        """All contestants in registration: those of every run, and the further models in the paper's pipeline."""
        first = next(iter(CONTESTANTS))
        more = {f"{name} + FPFH": with_fpfh(name) for name in self.networks if name != POLI}
        return {first: CONTESTANTS[first], **more, **CONTESTANTS}


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


def _best(record: Record) -> str:
    """Both errors, each followed by the setting it is reached with; of a model, then the NEES."""
    shown = [(record[name], record[f"{name}_setting"]) for name in ("rmse", "median")]
    errors = " / ".join(f"{error:.1f} ({setting})" if setting else f"{error:.1f}" for error, setting in shown)
    return errors if math.isnan(record["nees"]) else f"{errors}; {record['nees']:.2f}"


def _below(rival: str) -> tuple[str, Callable[[dict[Any, Record]], str]]:
    def cell(by: dict[Any, Record]) -> str:
        return " / ".join(f"{100 * (1 - by[POLI][name] / by[rival][name]):.1f} %" for name in ("rmse", "median"))

    return f"POLI below {rival.removeprefix('weighted PCA, ')}", cell


_NORMALS = Table(
    column_list(object="{object}", N="{N}"),
    across="method",
    cell=_best,
    lowest="rmse",
    then=[_below(rival) for rival in (PCA, WEIGHTED, STEEP, DEEPFIT)],
)


def run(options: Options) -> Iterator[Report]:
    objects = load_objects(options.mesh)
    distances = {
        (name, network, n): squared_distances(mesh, n, model, options)
        for name, mesh in objects.items() for network, model in options.networks.items() for n in options.normal_sizes
    }  # fmt: skip
    if options.registration:
        yield _registration_report(objects, distances, options)
    yield _normals_report(objects, distances, options)


Distances = dict[tuple[str, str, int], np.ndarray]  # d'(2C)^-1 d by object, model and N


def _registration_report(objects: dict[str, Mesh], found: Distances, options: Options) -> Report:
    distances = {name: np.concatenate([found[name, POLI, n] for n in options.normal_sizes]) for name in objects}
    records = _success_rates(objects, options)
    shown: list[Any] = []
    for name in objects:
        mine = [r for r in records if r["object"] == name]
        shown += mine
        shown += [{**mean_record([r for r in mine if r["method"] == method]), "N": "mean"} for method in options.contestants]
    notes = [f"success: rotation error of at most {options.tolerance:.0f} degrees, {options.pairs} pairs each, in percent"]
    notes += [f"{name}: {how.about}" for name, how in options.contestants.items()]
    for name in objects:
        notes.append(f"calibration, {name}: mean of d'(2C)^-1 d is {distances[name].mean():.2f} (3 when calibrated)")
    summary = {
        "calibration": {name: float(values.mean()) for name, values in distances.items()},
        "success_mean": {
            name: {r["method"]: r["success"] for r in shown if (r["object"], r["N"]) == (name, "mean")} for name in objects
        },
    }
    plots: dict[str, Plot | Callable[[Path], None]] = {
        "objects": Plot("N", "success", "method", "points", "success, %", "object", scale=100, ylim=(-2, 102)),
        "objects_calibration": partial(_plot_calibration, distances),
    }
    return Report("objects", "Objects: registration and calibration", records, _TABLE, notes, summary, plots, shown)


def _normals_report(objects: dict[str, Mesh], distances: Distances, options: Options) -> Report:
    records = [
        {"object": name, "N": n, "method": method, **vars(errors)}
        | {"nees": float(distances[name, method, n].mean()) if method in options.networks else math.nan}
        for name, mesh in objects.items()
        for n in options.normal_sizes
        for method, errors in normal_errors(mesh, n, options).items()
    ]
    notes = [
        f"POLI: the model {Path(options.models[0]).stem}; after the errors of a model, its NEES, the mean of d'(2C)^-1 d over "
        "nearest points of two clouds at the true pose (3 when calibrated)",
        f"RMSE / median of normal errors in degrees, ignoring sign, over {_CLOUDS} clouds each; every rival has the best of its "
        "settings for each number, chosen with the true normals",
        f"PCA: k of {', '.join(map(str, PCA_NEIGHBORS))}; weighted PCA: the same k, and the inverse distance to a power as weight: "
        f"1 to {max(CAREFUL)}, which a careful user would try, or {', '.join(map(str, POWERS))}, the truth choosing",
        f"DeepFit: our small reimplementation, k of {', '.join(map(str, DEEPFIT_NEIGHBORS))}, jets of order 1 and 2; supervised: "
        f"trained for {trained_steps()} steps with the true normals of shapes that POLI learns from without them",
    ]
    return Report("objects_normals", "Objects: normals", records, _NORMALS, notes)


def load_objects(paths: Sequence[Path]) -> dict[str, Mesh]:
    """Load meshes by file name; without files, return four procedural shapes not used for training."""
    if len({path.stem for path in paths}) < len(paths):
        raise InputError(f"two meshes have the same name: {', '.join(path.name for path in paths)}; rename one")
    if paths:
        return {path.stem: read_mesh(path).normalized() for path in paths}
    return {f"shape {seed}": procedural_mesh(seed) for seed in range(2_000_000, 2_000_004)}


def normal_errors(mesh: Mesh, count: int, config: Options) -> dict[str, BestErrors]:
    """Normal errors by method; of a rival with several settings, those with the best setting for each measure."""
    rng = np.random.default_rng([config.seed, count])
    clouds = [mesh.sample(count, rng) for _ in range(_CLOUDS)]
    truth = [normals for _, normals in clouds]

    def judged(normals_of: Callable[[np.ndarray], np.ndarray]) -> NormalErrors:
        return NormalErrors.of([normals_of(points) for points, _ in clouds], truth)

    deepfit = {
        f"k {k}, order {order}": judged(partial(deepfit_normals, k=k, order=order)) for k in DEEPFIT_NEIGHBORS for order in ORDERS
    }
    return {
        **{name: BestErrors.of({"": judged(partial(_network_normals, model))}) for name, model in config.networks.items()},
        **pca_errors(clouds),
        DEEPFIT: BestErrors.of(deepfit),
    }


def _network_normals(model: str, points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 3)
    return estimate(points, model).normals


def pca_errors(clouds: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, BestErrors]:
    """Normal errors of PCA and of weighted PCA over clouds with their true normals, with the best settings for each measure."""
    truth = [normals for _, normals in clouds]
    plain = {f"k {k}": NormalErrors.of([pca(points, k=k).normals for points, _ in clouds], truth) for k in PCA_NEIGHBORS}
    found: dict[Setting, list[np.ndarray]] = {}
    for points, _ in clouds:
        for setting, field in weighted_pca(points, PCA_NEIGHBORS):
            found.setdefault(setting, []).append(field.axes[:, :, 0])
    weighted = {setting: NormalErrors.of(normals, truth) for setting, normals in found.items()}
    best = {
        name: BestErrors.of({setting_name(setting): errors for setting, errors in weighted.items() if setting[1] in powers})
        for name, powers in ((WEIGHTED, CAREFUL), (STEEP, POWERS))
    }
    return {PCA: BestErrors.of(plain), **best}


def squared_distances(mesh: Mesh, count: int, model: str, config: Options) -> np.ndarray:
    """d'(2C)^-1 d of nearest points between independent clouds of one surface at the true pose: chi-square with 3 degrees of
    freedom if the residuals are Gaussian."""
    rng = np.random.default_rng([config.seed, 1, count])
    found = []
    for _ in range(_CLOUDS):
        q, p = mesh.sample(count, rng)[0], mesh.sample(count, rng)[0]
        d = q - p[KDTree(p).nearest(1, q)[1][:, 0]]
        found.append(0.5 * np.einsum("ni,nij,nj->n", d, np.linalg.inv(estimate(q, model).covariances), d))
    return np.concatenate(found)


def _success_rates(objects: dict[str, Mesh], options: Options) -> list[dict[str, Any]]:
    """Success rates by object, contestant and N. Each process handles one object and N at a time, with one thread."""
    jobs = [(name, n) for name in objects for n in options.sizes]
    answers = in_processes(partial(_kept_rates, options), [(objects[name], n) for name, n in jobs], thread_count(), "registering")
    found = zip(jobs, answers, strict=True)
    return [{"object": name, "N": n, "method": m, "success": rate} for (name, n), rates in found for m, rate in rates.items()]


def _kept_rates(config: Options, job: tuple[Mesh, int]) -> dict[str, float]:
    """`_rates`, kept on disk."""
    mesh, count = job
    key = {
        "mesh": hashlib.sha256(mesh.vertices.tobytes() + mesh.faces.tobytes()).hexdigest(), "N": count, "pairs": config.pairs,
        "seed": config.seed, "limits": [config.max_rotation, config.tolerance], "contestants": list(config.contestants),
        "weights": [weights_digest(model) for model in config.models], **our_state(), "rivals": rivals_state(),
    }  # fmt: skip
    return Cache(config.runs).get((), key, lambda: _rates(config, job))


def _rates(config: Options, job: tuple[Mesh, int]) -> dict[str, float]:
    """Share of pairs that each contestant registers, with the best of its settings."""
    mesh, count = job
    won = {contestant: np.zeros(len(how.ways)) for contestant, how in config.contestants.items()}
    for pair in range(config.pairs):
        source, target, R_true = draw_pair(mesh, count, config, pair)
        source, target = with_normals(source, config), with_normals(target, config)
        for contestant, how in config.contestants.items():
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


def with_normals(cloud: Cloud, config: Options) -> Cloud:
    fields = {name: estimate(cloud.points, model) for name, model in config.networks.items()}
    fields |= {f"pca{k}": pca(cloud.points, k=k) for k in NEIGHBORS}
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
