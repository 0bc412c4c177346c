"""The surface through a return, as its ellipsoid describes it, and how far from it samples can be trusted.

This is the one place that knows the shape of the surface: a plane across the ellipsoid's normal. A curved surface needs another
`heights`, and a term of its curvature in `reach_in_sigmas`.

The factors were fitted to the returns of beams that had been removed from real scans (KITTI raw 0013, 16 of 64 beams kept). Of the
returns between two rings with an expected error of at most 5 cm, 63 % are nearer to the surface than expected; 68 % would be ideal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.tasks.densify.columns import angles_of
from poli.tasks.densify.samples import Samples

_NOISE = 0.008  # meters: error of a sample between two returns of an ideal surface, from the noise of the ranges
_THICKNESS_BETWEEN = 1.4  # error between two returns, per sigma of the thicker ellipsoid across its surface
_DISAGREEMENT = 0.15  # error between two returns, per meter by which the surface of one misses the other
_THICKNESS_BEYOND = 2.0  # error at the ellipsoid itself, per sigma across the surface
_TILT = 0.35  # error of the normal in units of thickness / width of the ellipsoid
_FARTHEST = 24.0  # sigmas along the surface: limit of the reach, however thin the ellipsoid

# Where beams have passed, the sensor saw something behind, so there is no surface.
_WIDTH = 0.4  # degrees: returns in a column of this width are on the ray of a sample, or above or below it
_BESIDE = 0.2  # degrees of elevation: a beam this near has passed through the place of the sample itself
_BEHIND = 3.0  # expected errors by which a return must lie behind the surface of a sample
_TURN = 1000.0  # degrees, more than the elevations span: separates the columns in one sorted list


@dataclass(frozen=True, eq=False)
class Surfaces:
    """One surface per ellipsoid."""

    field: Ellipsoids  # E ellipsoids

    @cached_property
    def normals(self) -> np.ndarray:  # (E, 3)
        """Unit normals on the side of the sensor, which is at the origin."""
        thin = self.field.axes[:, :, 0]
        away = np.einsum("ei,ei->e", thin, self.field.means) > 0.0
        return np.where(away[:, None], -thin, thin)

    @property
    def thickness(self) -> np.ndarray:  # (E,) meters
        return self.field.scales[:, 0]

    def heights(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray:  # (N,), (N, 3) -> (N,) meters
        """Distances of points above the surfaces of these ellipsoids, positive on the side of the sensor."""
        return np.einsum("ni,ni->n", points - self.field.means[rows], self.normals[rows])

    def error_between(self, a: np.ndarray, b: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:  # (N,), (N, 3) -> (N,)
        """Expected error in meters, across the surface, of points on the line from p to q, which belong to the ellipsoids a and b.

        It is small if both vouch for one surface: the surface of each passes through the other, and both are thin.
        """
        missed = np.maximum(np.abs(self.heights(a, q)), np.abs(self.heights(b, p)))
        thick = np.maximum(self.thickness[a], self.thickness[b])
        return np.sqrt(_NOISE**2 + (_THICKNESS_BETWEEN * thick) ** 2 + (_DISAGREEMENT * missed) ** 2)

    def reach_in_sigmas(self, max_error: float) -> np.ndarray:  # meters -> (E,)
        """How far along the surface the expected error stays below `max_error`, in standard deviations; 0 if nowhere.

        At m standard deviations, the error of a plane is sqrt(thickness^2 + (tilt r)^2) with r = m width and
        tilt = thickness / width, each with its factor: the width cancels.
        """
        with np.errstate(divide="ignore", over="ignore"):
            squared = (np.square(max_error / self.thickness) - _THICKNESS_BEYOND**2) / _TILT**2
        return np.minimum(np.sqrt(np.maximum(squared, 0.0)), _FARTHEST)


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
