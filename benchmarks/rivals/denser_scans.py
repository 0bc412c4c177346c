"""Ways to make scans with few beams denser, which keep the times of the points: POLI's and its rivals'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
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

RAW, PCA, INTERPOLATION, TULIP, POLI = "raw", "+ PCA", "+ interpolation", "+ TULIP (small)", "+ POLI"


@dataclass(frozen=True)
class Denser:
    name: str
    apply: Callable[[Scan], Scan]  # the originals first
    about: dict[str, Any] = field(default_factory=dict)  # everything its result depends on


def denser(way: str, config: DensifyConfig, sensor: str, beams: int, full: int = 64) -> Denser:
    """One of the ways above. PCA fills gaps as POLI does; interpolation adds rows until a sensor of `beams` has `full`; TULIP
    adds three between any two of 16 rings."""
    if way == RAW:
        return Denser(RAW, _as_it_is)
    if way == INTERPOLATION:
        return interpolated(sensor, beams, RangeInterpolation(rows=max(1, full // beams - 1)))
    if way == TULIP:
        return upsampled(sensor, beams)
    return densified(way, replace(config, model="pca") if way == PCA else config)


def densified(name: str, config: DensifyConfig) -> Denser:
    weights = "" if config.model == "pca" else weights_digest(config.model)
    known = {**asdict(config), "model": "pca" if config.model == "pca" else "", **our_state(), "weights": weights}
    return Denser(name, partial(_densify, config=config), known)


def interpolated(sensor: str, beams: int, settings: RangeInterpolation) -> Denser:
    known = {**asdict(settings), "sensor": sensor, "beams": beams}
    add = partial(interpolate, elevations=ring_elevations(sensor, beams), settings=settings)
    return Denser(INTERPOLATION, partial(_rows_added, by=add), known)


def upsampled(sensor: str, beams: int) -> Denser:
    from benchmarks.rivals.tulip import WEIGHTS, upsample  # torch, which the others do without

    known = {"sensor": sensor, "beams": beams, "weights": sha256(WEIGHTS.read_bytes()).hexdigest()}
    return Denser(TULIP, partial(_rows_added, by=partial(upsample, elevations=ring_elevations(sensor, beams))), known)


def _as_it_is(scan: Scan) -> Scan:
    return scan


def _densify(scan: Scan, config: DensifyConfig) -> Scan:
    return densify_or_say(scan, config)[0]


def _rows_added(scan: Scan, by: Callable[[np.ndarray], np.ndarray]) -> Scan:
    points = by(scan.points)
    fields = {"time": Spin().times(points, PERIOD)} if "time" in scan.fields else {}
    return Scan(points, fields, scan.stamp)
