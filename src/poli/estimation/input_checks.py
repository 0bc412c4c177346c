"""Warn if a cloud is denser or sparser than those a model was trained on.

Measured in simulated worlds that no model was trained on (`lidar`, `objects`), against the best PCA on the same points:

- `lidar` on scans in meters, by the median distance between points: at 0.07 m (raw scans of 64 beams outdoors; a tenth of the
  training data was raw) the RMSE of the normals is 7 % below that of PCA; indoors it is the same; at 0.046 m (raw, indoors) it is
  4 % above. With voxels of 3 m and more it stays below, but errors double from 2 to 4 m, and from 6 m on the likelihood of VLP-16
  scans is worse than that of PCA.
- `lidar` on the same scans in wrong units, where noise and rings no longer match the size of the world: PCA has the lower RMSE
  below 0.05 to 0.2 m and above 2 to 10 m. In centimeters and millimeters (7 m apart and more) the RMSE is up to three times that
  of PCA, and covariances are about ten and about a hundred times too small.
- `objects`, which does not use absolute size, stays below PCA, and calibrated, from 16 to 64,000 points.
- Sixteen points cut out of a scan have up to 17 % more RMSE than in the whole scan; 64 have 2 to 3 % more.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from poli.errors import DensityWarning, ViewpointWarning
from poli.estimation.arrangement import Viewpoint
from poli.estimation.frames import spacing_per_radius
from poli.estimation.model import Model
from poli.kdtree.tree import KDTree

FEWEST = 64  # points: fewer say little about their surroundings
# Accepted spacing in terms of the training voxels: a quarter of the smallest to two and a half times the largest.
_DENSER, _SPARSER = 0.25, 2.5
_SAMPLED = 512  # points that the median is computed from
_NEIGHBORS = 17  # per point, itself included, when the network has not computed the spacing
_MILLIMETERS = 1000.0
_REACH = 5000.0  # meters: no LiDAR on the ground sees this far
_APART = 4.0  # times the spread of the points: farther away, the sensor was not among them, whatever the unit


@dataclass(frozen=True)
class Seen:
    """The density of a model's training data, according to its file of weights."""

    voxels: tuple[float, float] | None = None  # meters; None if unknown, or if the model does not use absolute size

    @property
    def spacing(self) -> tuple[float, float] | None:
        """The accepted range of point spacing, in meters."""
        return None if self.voxels is None else (_DENSER * self.voxels[0], _SPARSER * self.voxels[1])

    @staticmethod
    def by(model: Model) -> Seen:
        """Return the density of a model's training data, if its file contains it and the model uses absolute size."""
        scans = model.training.get("scans")
        if not model.architecture.log_scale or not isinstance(scans, dict):
            return Seen()
        voxels = scans.get("voxels")
        if not isinstance(voxels, list) or not voxels or not all(isinstance(v, int | float) and v > 0 for v in voxels):
            return Seen()
        return Seen((float(min(voxels)), float(max(voxels))))


def median_spacing(spacing: np.ndarray) -> float:  # (N,)
    """Return the median, computed from a sample of the points."""
    some = spacing[:: max(1, len(spacing) // _SAMPLED)]
    return float(np.partition(some, len(some) // 2)[len(some) // 2])


def complaint_of(model: Model, points: np.ndarray) -> str | None:  # (N, 3), N >= 16
    """Return what is wrong with the density of the points, or None; for callers that do not compute ellipsoids."""
    k = min(_NEIGHBORS, len(points))
    distances = KDTree(points).nearest(k)[0][:, 1:]  # (N, k - 1), without the point itself
    spacing = spacing_per_radius(k - 1) * np.sqrt((distances**2).mean(axis=1))
    return _complaint(model.name, Seen.by(model), len(points), median_spacing(spacing))


def warn_of_density(model: Model, count: int, spacing: float, stacklevel: int = 3) -> None:
    """Issue a `DensityWarning`, at the caller's caller, if `count` points `spacing` meters apart are outside a model's range."""
    found = _complaint(model.name, Seen.by(model), count, spacing)
    if found is not None:
        warnings.warn(found, DensityWarning, stacklevel=stacklevel)


def _complaint(name: str, seen: Seen, count: int, spacing: float) -> str | None:
    if seen.voxels is not None and seen.spacing is not None:
        (fine, coarse), (low, high) = seen.voxels, seen.spacing
        known = f"the model '{name}' was trained on voxels of {fine:g} to {coarse:g} m and works for {low:g} to {high:g} m"
        if spacing < low:
            return (
                f"points are {spacing:.2g} m apart (median); {known}. Downsample: poli.voxel_downsample(scan, {fine:g}), "
                f"--voxel {fine:g} on the command line; if the points are not in meters, scale them first"
            )
        if spacing > high:
            unit = "millimeters" if low <= spacing / _MILLIMETERS <= high else "another unit"
            return (
                f"points are {spacing:.3g} m apart (median); {known}. If they are in {unit}, scale them to meters; if the cloud is "
                "this sparse or was downsampled this far, use smaller voxels, or do not trust normals and sizes"
            )
    if count < FEWEST:
        return f"{count} points; the model '{name}' needs {FEWEST} or more to estimate the surface. Give more of the cloud"
    return None


def warn_of_distance(model: Model, points: np.ndarray, view: Viewpoint, stacklevel: int = 3) -> None:  # (N, 3)
    """Issue a `ViewpointWarning`, at the caller's caller, if the model uses the sensor position and it is implausible."""
    if not model.architecture.sensor or view.position is None:
        return
    rays = points - view.position
    distance = float(np.linalg.norm(np.einsum("ni->i", rays))) / len(rays)
    if distance <= _REACH:
        return
    spread = float(np.sqrt(((rays - rays.mean(axis=0)) ** 2).sum(axis=1).mean()))
    if distance > _APART * spread:
        place = "the origin, the assumed sensor position" if not np.any(view.position) else "the given viewpoint"
        warnings.warn(
            f"points lie {distance / 1000.0:.0f} km from {place}; subtract the sensor position first, or pass viewpoint= in "
            "Python (for several positions merged=True, --merged)",
            ViewpointWarning,
            stacklevel=stacklevel,
        )
