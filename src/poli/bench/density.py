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

COUNTS = (1, 3, 7)  # samples of each ellipsoid
REACHES = (1.0, 2.0, 4.0, 8.0, 12.0)  # calibrated standard deviations
THICKEST = (0.02, 0.03, 0.04, 0.06, None)  # metres: ellipsoids above are not sampled
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
    """By name: `config` with every number of samples and reach; then with its own of both, elsewhere and otherwise; and PCA."""
    grid = {f"{count} at {reach:g}": replace(config, per_point=count, max_sigma=reach) for reach in REACHES for count in COUNTS}
    own = f"{config.per_point} at {config.max_sigma:g}"
    for limit in THICKEST:
        name = "of any thickness" if limit is None else f"thinner than {limit:g} m"
        grid[f"{own}, {name}"] = replace(config, max_thickness=limit)
    grid[f"{own}, not flat"] = replace(config, flat=False)
    grid[f"{own}, within 30 m"] = replace(config, max_range=30.0)
    paper = replace(config, per_point=7, flat=False, max_thickness=None)
    grid |= {f"the paper's, 7 at {reach:g}": replace(paper, max_sigma=reach) for reach in (1.0, 3.0)}
    grid |= {f"PCA, the paper's, 7 at {reach:g}": replace(paper, model="pca", max_sigma=reach) for reach in _PCA_REACHES}
    return {**grid, f"PCA, {own}": replace(config, model="pca"), "defaults": config}
