"""How well ellipsoids fit a known surface: errors of normals, distances of samples, and coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kdtree.tree import KDTree
from poli.options import real_array, real_number
from poli.scan import points_of

# Meters from the sensor. Beams diverge with range, so a value over a whole scan mostly reflects how much of it was near.
_CLOSE = 10.0  # degrees: normals within this are useful


@dataclass(frozen=True)
class AngleErrors:
    """Errors of normals, ignoring sign; NaN if there are none."""

    count: int
    rmse: float  # degrees
    median: float  # degrees
    close: float  # share within 10 degrees

    @staticmethod
    def of(degrees: np.ndarray) -> AngleErrors:  # (N,)
        if not len(degrees):
            return AngleErrors(0, np.nan, np.nan, np.nan)
        return AngleErrors(
            len(degrees), float(np.sqrt(np.mean(degrees**2))), float(np.median(degrees)), float(np.mean(degrees <= _CLOSE))
        )


class _Errors(Protocol):
    @property
    def rmse(self) -> float: ...

    @property
    def median(self) -> float: ...


@dataclass(frozen=True)
class BestErrors:
    """The lowest errors of a method with several settings, each measure with its own best setting."""

    rmse: float  # degrees
    rmse_setting: str
    median: float  # degrees
    median_setting: str

    @staticmethod
    def of(errors: Mapping[str, _Errors]) -> BestErrors:  # by setting
        by_rmse, by_median = min(errors, key=lambda s: errors[s].rmse), min(errors, key=lambda s: errors[s].median)
        return BestErrors(errors[by_rmse].rmse, by_rmse, errors[by_median].median, by_median)


@dataclass(frozen=True)
class Distances:
    """Distances of samples to the true surface, in meters."""

    count: int
    mean: float
    median: float

    @staticmethod
    def of(meters: np.ndarray) -> Distances:  # (N,)
        if not len(meters):
            return Distances(0, np.nan, np.nan)
        return Distances(len(meters), float(np.mean(meters)), float(np.median(meters)))


def angles(normals: np.ndarray, truth: np.ndarray) -> np.ndarray:  # (N, 3), (N, 3) -> (N,)
    """Angles between unit vectors in degrees, ignoring sign; by sine and cosine, since the cosine alone loses small angles."""
    normals, truth = real_array(normals, "normals"), real_array(truth, "truth")
    if normals.shape != truth.shape or normals.ndim != 2 or normals.shape[1] != 3:
        raise InputError(f"normals have shape {normals.shape} and truth {truth.shape}; expected the same shape (N, 3)")
    cosine = np.abs(np.einsum("ni,ni->n", normals, truth))
    return np.degrees(np.arctan2(np.linalg.norm(np.cross(normals, truth), axis=1), cosine))


def normal_errors(normals: np.ndarray, truth: np.ndarray) -> AngleErrors:  # (N, 3), (N, 3)
    return AngleErrors.of(angles(normals, truth))


def sample_distances(
    field: Ellipsoids,
    sigma: float,
    distance: Callable[[np.ndarray], np.ndarray],  # (M, 3) -> (M,): meters to the true surface
    rng: np.random.Generator,
    per_point: int = 4,
) -> Distances:
    """Distances to the true surface of samples drawn uniformly in the ellipsoids of `sigma` standard deviations."""
    samples = field.sample(per_point, max_sigma=sigma, seed=rng)
    meters = real_array(distance(samples), "distance")
    if meters.shape != (len(samples),):
        raise InputError(f"distance returned shape {meters.shape} for {len(samples)} points; expected ({len(samples)},)")
    return Distances.of(np.abs(meters))


def coverage(surface_points: np.ndarray, samples: np.ndarray, reach: float) -> float:  # (S, 3), (M, 3)
    """Share of `surface_points`, drawn by the caller from the visible true surface, with a sample within `reach` meters.

    Read it together with `sample_distances`: huge balls cover everything, but their samples are far from the surface.
    """
    surface_points = points_of(surface_points, "surface_points")
    reach = real_number(reach, "reach", "a positive number of meters", above=True)
    nearest = KDTree(points_of(samples, "samples")).nearest(1, surface_points)[0][:, 0]
    return float(np.mean(nearest <= reach))
