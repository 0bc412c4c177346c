"""Robustness of the losses to wrong measured poses: training with pose noise 0 to 0.03, evaluated by normals (supplement SE).

Identical networks are trained on identical clouds with T-Q-C (the measured pose is taken as true), T-T-Q-C (the paper's) and
T-T-Q-C-map (the chordal prior inside the certified problem), at several levels of translation noise, and compared by normals.

Example: python -m benchmarks noise configs/noise.toml --mesh dragon.ply
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.experiments.objects import PCA, STEEP, NormalErrors, load_objects, pca_errors
from benchmarks.options import option
from benchmarks.report import Plot, Report, Table, column_list
from poli.estimation import estimate
from poli.train.config import StageConfig, TrainConfig, read_config
from poli.train.losses import LossKind
from poli.train.trainer import train
from poli.worlds.shapes import Mesh

KINDS: dict[str, LossKind] = {"T-Q-C": "tqc", "T-T-Q-C": "ttqc", "T-T-Q-C-map": "ttqc-map"}
LEVELS = (0.0, 0.01, 0.02, 0.03)
_LEAST_SIGMA = 0.005  # minimum sigma of Gamma's translation, also without noise


@dataclass(frozen=True)
class Options:
    config: Path = option(Path("configs/noise.toml"), "training configuration; its loss and noise are replaced", argument=True)
    mesh: tuple[Path, ...] = option((), ".ply or .obj meshes, separated by commas; default: our procedural shapes")
    runs: Path = option(Path("runs/noise"), "folder for the twelve training runs; they resume")
    steps: int = option(0, "training steps of each run; 0: as configured", least=0)
    points: int = 1000
    clouds: int = 10
    seed: int = 0


_TABLE = Table(column_list(loss="{loss}"), across="title", cell="{rmse:.1f} / {median:.1f} ({against_clean_percent:+.0f} %)")


def run(options: Options) -> Iterator[Report]:
    config, objects = read_config(options.config), load_objects(options.mesh)
    if options.steps:
        config = replace(config, shapes=replace(config.shapes, steps=options.steps), sizes=StageConfig())
    records: list[dict[str, Any]] = []
    for name, level in track([(name, level) for name in KINDS for level in LEVELS], "training"):
        folder = options.runs / f"{KINDS[name]}_{level:g}"
        model = str(train(_configured(config, KINDS[name], level), folder, beside=options.config.parent))
        errors = _errors(objects, options, lambda points, model=model: estimate(points, model).normals)  # type: ignore[misc]
        clean = records[-LEVELS.index(level)]["rmse"] if level else errors.rmse
        records.append(
            {"loss": name, "noise": level, "title": f"noise {level:g}", **vars(errors)}
            | {"against_clean_percent": 100 * (errors.rmse / clean - 1)}
        )
    best = pca_errors(_clouds(objects, options))
    plain, weighted = best[PCA], best[STEEP]
    notes = [
        f"normal RMSE / median in degrees (and change of the RMSE against the same loss without noise), N = {options.points}, "
        f"{options.clouds} clouds per object ({', '.join(objects)})",
        f"the best PCA has {plain.rmse:.1f} / {plain.median:.1f} ({plain.rmse_setting} / {plain.median_setting}), the best PCA "
        f"with inverse distances as weights {weighted.rmse:.1f} / {weighted.median:.1f} ({weighted.rmse_setting} / "
        f"{weighted.median_setting})",
        f"{config.steps} steps of {config.pairs.clouds} clouds with {config.pairs.partners} partners each; "
        "matches are nearest neighbors under the measured pose",
        "noise: standard deviation of each axis of the measured translation, in radii of the object; Gamma uses that value",
    ]
    plot = Plot(
        "noise", "rmse", "loss", "noise of the measured translations, in radii", "normal RMSE, degrees",
        title="", level=("the best weighted PCA", weighted.rmse),
    )  # fmt: skip
    summary = {"best_pca": vars(plain), "best_weighted_pca": vars(weighted)}
    yield Report("noise", "Losses under noisy poses", records, _TABLE, notes, summary, {"noise": plot})


def _configured(config: TrainConfig, kind: LossKind, level: float) -> TrainConfig:
    loss = replace(config.loss, kind=kind, translation_sigma=max(level, _LEAST_SIGMA))
    return replace(config, pairs=replace(config.pairs, translation_noise=level), loss=loss)


def _clouds(objects: dict[str, Mesh], options: Options) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(options.seed)
    return [mesh.sample(options.points, rng) for mesh in objects.values() for _ in range(options.clouds)]


def _errors(objects: dict[str, Mesh], options: Options, normals_of: Callable[[np.ndarray], np.ndarray]) -> NormalErrors:
    clouds = _clouds(objects, options)
    return NormalErrors.of([normals_of(points) for points, _ in clouds], [normals for _, normals in clouds])
