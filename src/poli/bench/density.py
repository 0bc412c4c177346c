"""`poli bench density`: how a system's errors change with the number of samples, their reach, and which ellipsoids are sampled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from poli.bench.augmentation import AugmentationBench, run_sources
from poli.bench.augmentation_contestants import RAW, Augmentation, densified, raw
from poli.bench.augmentation_plots import plot_density
from poli.bench.augmentation_tables import density_report
from poli.bench.odometry_runs import DriveSource
from poli.bench.report import publish
from poli.tasks.densify import DensifyConfig

COUNTS = (1, 3, 7, 15)  # samples of each ellipsoid
REACHES = (0.5, 1.0, 2.0, 3.0, 5.0)  # calibrated standard deviations
_PCA_REACHES = (1.0, 2.0)  # so that nobody need ask whether PCA was only sampled too far or too near


def run(bench: AugmentationBench, out: Path, json_path: Path | None, command: str) -> None:
    gains = run_sources(bench, bench.sources(), density_ways)
    ways = list(dict.fromkeys(gain.augmentation for gain in gains))
    publish(density_report(gains, ways, command), "density", out, json_path)
    plot_density(gains, ways, out / "density.png")


def density_ways(bench: AugmentationBench, source: DriveSource) -> list[Augmentation]:
    """The same for every drive."""
    grid = [densified(name, config) for name, config in density_grid(bench.config).items()]
    return [raw(), *(way for way in grid if way.name != RAW)]


def density_grid(config: DensifyConfig) -> dict[str, DensifyConfig]:
    """By name: `config` with every number of samples and reach, and with its own of both where only some ellipsoids are sampled."""
    everywhere = replace(config, planarity=0.0, thickest=None, farthest=None)
    grid = {f"{count} at {reach:g}": replace(everywhere, per_point=count, within=reach) for reach in REACHES for count in COUNTS}
    own = replace(everywhere, per_point=config.per_point, within=config.within)
    name = f"{own.per_point} at {own.within:g}"
    grid |= {f"{name}, planarity {least:g}": replace(own, planarity=least) for least in (0.2, 0.4)}
    grid |= {f"{name}, thinner than {limit:g} m": replace(own, thickest=limit) for limit in (0.03, 0.05, 0.1)}
    grid |= {f"{name}, within {limit:g} m": replace(own, farthest=limit) for limit in (30.0, 60.0)}
    of_pca = replace(everywhere, model="pca", per_point=config.per_point)
    grid |= {f"PCA {config.per_point} at {reach:g}": replace(of_pca, within=reach) for reach in _PCA_REACHES}
    return {**grid, "defaults": config}
