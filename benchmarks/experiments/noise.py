"""`python -m benchmarks noise` (supplement SE): which loss survives measured poses that are wrong.

Equal networks learn from equal clouds with T-Q-C (the measured pose is taken as true), T-T-Q-C (the paper's) and T-T-Q-C-map (the
chordal prior inside the certified problem), at several levels of noise on the translation. What counts are the normals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.experiments.objects import NEIGHBOURS, NormalErrors, load_objects
from benchmarks.report import Report, publish
from poli.data.shapes import Mesh
from poli.estimation import estimate, pca
from poli.learn.config import TrainConfig
from poli.learn.losses import LossKind
from poli.learn.trainer import train
from poli.show.figure import pyplot, save_figure

KINDS: dict[str, LossKind] = {"T-Q-C": "tqc", "T-T-Q-C": "ttqc", "T-T-Q-C-map": "ttqc-map"}
LEVELS = (0.0, 0.01, 0.02, 0.03)
_LEAST_SIGMA = 0.005  # of Gamma's translation: without noise the measured pose is still not known to be exact


@dataclass(frozen=True)
class NoiseBench:
    config: TrainConfig
    beside: Path  # the folder that file names in the configuration count from
    meshes: tuple[Path, ...] = ()
    points: int = 1000
    clouds: int = 10
    seed: int = 0


def run(bench: NoiseBench, folder: Path, out: Path, json_path: Path | None, command: str) -> None:
    objects = load_objects(bench.meshes)
    errors: dict[str, dict[float, NormalErrors]] = {name: {} for name in KINDS}
    for name, level in track([(name, level) for name in KINDS for level in LEVELS], "training"):
        model = train(_configured(bench.config, KINDS[name], level), folder / f"{KINDS[name]}_{level:g}", beside=bench.beside)
        errors[name][level] = _errors(objects, bench, str(model))
    rivals = [_pca_errors(objects, bench, k) for k in NEIGHBOURS]
    best_rmse, best_median = min(e.rmse for e in rivals), min(e.median for e in rivals)
    clean = {name: by_level[0.0].rmse for name, by_level in errors.items()}
    rows = []
    for name, by_level in errors.items():
        rows.append(
            [name, *(f"{e.rmse:.1f} / {e.median:.1f} ({100 * (e.rmse / clean[name] - 1):+.0f} %)" for e in by_level.values())]
        )
    figures = {
        "errors": {name: {str(level): vars(e) for level, e in by_level.items()} for name, by_level in errors.items()},
        "rmse_against_noise_free": {
            name: {str(level): e.rmse / clean[name] for level, e in by_level.items()} for name, by_level in errors.items()
        },
        "best_pca": {"rmse": best_rmse, "median": best_median},
    }
    s = bench.config.schedule
    notes = [
        f"normals' RMSE / median in degrees (and the RMSE against the same loss without noise), N = {bench.points}, "
        f"{bench.clouds} clouds each of {', '.join(objects)}; the best PCA has {best_rmse:.1f} / {best_median:.1f}",
        f"{s.steps} steps each of {bench.config.pairs.clouds} clouds with {bench.config.pairs.partners} partners; "
        "matches are nearest neighbours under the measured pose",
        "noise: standard deviation of each axis of the measured translation, in radii of the object; Gamma is given that value",
    ]
    columns = ["loss", *(f"noise {level:g}" for level in LEVELS)]
    publish(Report("Losses under noisy poses", command, columns, rows, notes, figures), "noise", out, json_path)
    _plot(errors, best_rmse, out / "noise.png")


def _configured(config: TrainConfig, kind: LossKind, level: float) -> TrainConfig:
    loss = replace(config.loss, kind=kind, translation_sigma=max(level, _LEAST_SIGMA))
    return replace(config, pairs=replace(config.pairs, translation_noise=level), loss=loss)


def _clouds(objects: dict[str, Mesh], bench: NoiseBench) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(bench.seed)
    return [mesh.sample(bench.points, rng) for mesh in objects.values() for _ in range(bench.clouds)]


def _errors(objects: dict[str, Mesh], bench: NoiseBench, model: str) -> NormalErrors:
    clouds = _clouds(objects, bench)
    return NormalErrors.of([estimate(points, model).normals for points, _ in clouds], [normals for _, normals in clouds])


def _pca_errors(objects: dict[str, Mesh], bench: NoiseBench, k: int) -> NormalErrors:
    clouds = _clouds(objects, bench)
    return NormalErrors.of([pca(points, k=k).normals for points, _ in clouds], [normals for _, normals in clouds])


def _plot(errors: dict[str, dict[float, NormalErrors]], best_pca: float, path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, by_level in errors.items():
        axes.plot(list(by_level), [e.rmse for e in by_level.values()], marker="o", label=name)
    axes.axhline(best_pca, color="k", lw=0.8, ls=":", label="the best PCA")
    axes.set(xlabel="noise of the measured translations, in radii", ylabel="normals' RMSE, degrees")
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, path)
    plt.close(figure)
