"""Ways to make scans with few beams denser, which keep the times of the points: POLI's and its rivals'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cache import our_state
from benchmarks.data.rings import ring_elevations
from benchmarks.provenance import weights_digest
from benchmarks.rivals.range_interpolation import RangeInterpolation, interpolate
from poli.beams.corrections import PERIOD, Spin
from poli.densification import DensifyConfig
from poli.densification.densify import densify_or_say
from poli.scan import Scan

RAW, PCA, INTERPOLATION, POLI = "raw", "+ PCA", "+ interpolation", "+ POLI"


@dataclass(frozen=True)
class Denser:
    name: str
    apply: Callable[[Scan], Scan]  # the originals first
    about: dict[str, Any] = field(default_factory=dict)  # everything its result depends on


def denser(way: str, config: DensifyConfig, sensor: str, beams: int, full: int = 64) -> Denser:
    """One of the ways above. PCA fills gaps as POLI does; interpolation adds rows until a sensor of `beams` has `full`."""
    if way == RAW:
        return Denser(RAW, _as_it_is)
    if way == INTERPOLATION:
        return interpolated(sensor, beams, RangeInterpolation(rows=max(1, full // beams - 1)))
    return densified(way, replace(config, model="pca") if way == PCA else config)


def densified(name: str, config: DensifyConfig) -> Denser:
    weights = "" if config.model == "pca" else weights_digest(config.model)
    known = {**asdict(config), "model": "pca" if config.model == "pca" else "", **our_state(), "weights": weights}
    return Denser(name, partial(_densify, config=config), known)


def interpolated(sensor: str, beams: int, settings: RangeInterpolation) -> Denser:
    known = {**asdict(settings), "sensor": sensor, "beams": beams}
    return Denser(INTERPOLATION, partial(_interpolate, elevations=ring_elevations(sensor, beams), settings=settings), known)


def _as_it_is(scan: Scan) -> Scan:
    return scan


def _densify(scan: Scan, config: DensifyConfig) -> Scan:
    return densify_or_say(scan, config)[0]


def _interpolate(scan: Scan, elevations: np.ndarray, settings: RangeInterpolation) -> Scan:
    points = interpolate(scan.points, elevations, settings)
    fields = {"time": Spin().times(points, PERIOD)} if "time" in scan.fields else {}
    return Scan(points, fields, scan.stamp)
