"""Augmentations that densify scans, and systems without ellipsoids that run on the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cache import our_state, weights_digest
from benchmarks.data.drives import DriveSource, RealDrive
from benchmarks.data.rings import ring_elevations
from benchmarks.rivals.odometry import run_genz, run_kiss
from benchmarks.rivals.odometry_contestants import CHOSEN, Contestant, Outcome
from benchmarks.rivals.range_interpolation import RangeInterpolation, interpolate
from benchmarks.rivals.tracks import Run
from poli.data.simulate import find_spinning
from poli.scan import Scan, ScanLike
from poli.tasks.densify import DensifyConfig, densify

RAW, PCA, INTERPOLATION, POLI = "raw", "+ PCA", "+ interpolation", "+ POLI"
AUGMENTATIONS = (RAW, PCA, INTERPOLATION, POLI)
SYSTEMS: dict[str, tuple[str, Run]] = {  # setting, and function to run it
    "KISS-ICP": ("defaults", run_kiss),
    "GenZ-ICP": ("outdoor", partial(run_genz, tuning="outdoor")),
}


@dataclass(frozen=True)
class Augmentation:
    name: str
    apply: Callable[[np.ndarray], np.ndarray]  # (N, 3) -> (M, 3), the originals first
    about: dict[str, Any] = field(default_factory=dict)  # everything its result depends on


@dataclass(frozen=True)
class Augmented(Contestant):
    """A system on densified scans."""

    system: str = ""
    augmentation: str = RAW
    made_by: dict[str, Any] = field(default_factory=dict)

    @property
    def about(self) -> dict[str, Any]:
        return {**super().about, "augmentation": self.made_by}


def augmentations(
    source: DriveSource, config: DensifyConfig, interpolation: RangeInterpolation, seeds: int = 1
) -> list[Augmentation]:
    """All four augmentations for a drive; PCA is sampled with `config` like POLI. Random ones are repeated for each seed."""
    seeded = [replace(config, seed=config.seed + number) for number in range(seeds)]
    return [
        raw(),
        *(densified(PCA, replace(one, model="pca")) for one in seeded),
        interpolated(elevations(source), interpolation),
        *(densified(POLI, one) for one in seeded),
    ]


def raw() -> Augmentation:
    return Augmentation(RAW, _as_it_is)


def densified(name: str, config: DensifyConfig) -> Augmentation:
    weights = "" if config.model == "pca" else weights_digest(config.model)
    known = {**asdict(config), "model": "pca" if config.model == "pca" else "", **our_state(), "weights": weights}
    return Augmentation(name, partial(_densify, config=config), known)


def interpolated(rings: np.ndarray, settings: RangeInterpolation) -> Augmentation:  # (K,) degrees
    known = {**asdict(settings), "elevations": rings.tolist()}
    return Augmentation(INTERPOLATION, partial(interpolate, elevations=rings, settings=settings), known)


def elevations(source: DriveSource) -> np.ndarray:  # (K,) degrees, ascending
    """Elevations of the rings of a drive's sensor."""
    if isinstance(source, RealDrive):
        return ring_elevations(source.sequence.sensor, source.sequence.beams)
    return np.array(find_spinning(source.sensor).elevations)


def contestant(system: str, augmentation: Augmentation) -> Augmented:
    setting, way = SYSTEMS[system]
    return Augmented(
        f"{system} {augmentation.name}",
        setting,
        CHOSEN,
        partial(_run_augmented, augment=augmentation.apply, way=way),
        system=system,
        augmentation=augmentation.name,
        made_by={"name": augmentation.name, **augmentation.about},
    )


def _run_augmented(scans: Sequence[ScanLike], augment: Callable[[np.ndarray], np.ndarray], way: Run) -> Outcome:
    track = way(augment(Scan.of(scan).points) for scan in scans)  # lazily: a drive of dense scans takes gigabytes
    return Outcome(track.poses, track.seconds)


def _as_it_is(points: np.ndarray) -> np.ndarray:
    return points


def _densify(points: np.ndarray, config: DensifyConfig) -> np.ndarray:  # (N, 3) -> (M, 3)
    return densify(points, config).points
