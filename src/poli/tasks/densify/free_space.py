"""Samples where beams have passed: the sensor saw something behind them, so there is no surface."""

from __future__ import annotations

import numpy as np

from poli.tasks.densify.columns import angles_of
from poli.tasks.densify.samples import Samples
from poli.tasks.densify.surface import Surfaces

_WIDTH = 0.4  # degrees: returns in a column of this width are on the ray of a sample, or above or below it
_BESIDE = 0.2  # degrees of elevation: a beam this near has passed through the place of the sample itself
_BEHIND = 3.0  # expected errors by which a return must lie behind the surface of a sample
_TURN = 1000.0  # degrees, more than the elevations span: separates the columns in one sorted list


def in_free_space(samples: Samples, returns: np.ndarray, surfaces: Surfaces, error: float) -> np.ndarray:  # (S,) bool
    """Whether a beam has passed through the surface where each sample lies.

    A return behind the surface of the sample's ellipsoid, as seen from the sensor, says so if it lies on the ray of the sample. On
    rays between two beams, both must say so. The height above the surface is compared, not the range: along the ground, ranges
    change fast from ray to ray.
    """
    azimuths, elevations = angles_of(returns)
    keys = _TURN * np.floor(azimuths / _WIDTH) + elevations
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    azimuths, elevations = angles_of(samples.points)
    wanted = _TURN * np.floor(azimuths / _WIDTH) + elevations
    after = np.searchsorted(keys, wanted)
    passed, beside = [], []
    for place in (after - 1, after):
        inside = np.clip(place, 0, len(keys) - 1)
        away = np.where(inside == place, np.abs(keys[inside] - wanted), np.inf)
        behind = surfaces.heights(samples.ellipsoids, returns[order[inside]]) < -_BEHIND * error
        passed.append(behind & (away < _TURN / 2.0))
        beside.append(behind & (away <= _BESIDE))
    return (passed[0] & passed[1]) | beside[0] | beside[1]
