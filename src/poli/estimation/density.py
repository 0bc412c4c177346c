"""Is a cloud as dense as those that a model has learned from? Where it is not, whoever asked should know.

Measured in simulated worlds that no model was trained on (`lidar`, `objects`), against the best PCA on the same points:

- `lidar` on scans in meters, by the median distance of the points: at 0.07 m (raw scans of 64 beams outdoors; a tenth of what it
  learned from was raw) the normals' RMSE is 7 % below that of PCA, indoors it is the same, at 0.046 m (raw, indoors) 4 % above.
  With voxels of 3 m and more it stays below, but errors double from 2 to 4 m, and the likelihood of a VLP-16's scans is worse than
  that of PCA from 6 m on.
- `lidar` on the same scans in wrong units, so that noise and rings no longer fit the size of the world: PCA has less RMSE below
  0.05 to 0.2 m and above 2 to 10 m. In centimeters and millimeters (7 m apart and more) RMSE is up to three times PCA's, and
  covariances are some ten and some hundred times too small.
- `objects`, which is told nothing of absolute size, stays below PCA, and calibrated, from 16 to 64,000 points.
- Sixteen points cut out of a scan have up to 17 % more RMSE than they have in the whole scan, 64 have 2 to 3 %.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from poli.errors import DensityWarning
from poli.estimation.frames import spacing_per_radius
from poli.estimation.model import Model
from poli.kdtree.tree import KDTree

FEWEST = 64  # points: fewer do not say much of their surroundings
# How far apart the points may be, in terms of the voxels of training: a quarter of the least, two and a half of the largest.
_DENSER, _SPARSER = 0.25, 2.5
_SAMPLED = 512  # points that the median is taken of
_NEIGHBORS = 17  # of each, itself included, where there is no network that knows them
_MILLIMETERS = 1000.0


@dataclass(frozen=True)
class Seen:
    """What a model has learned from, as far as its file of weights says."""

    voxels: tuple[float, float] | None = None  # meters; None: it is told nothing of absolute size, or nobody knows

    @property
    def spacing(self) -> tuple[float, float] | None:
        """Meters that points may be apart."""
        return None if self.voxels is None else (_DENSER * self.voxels[0], _SPARSER * self.voxels[1])

    @staticmethod
    def by(model: Model) -> Seen:
        scans = model.training.get("scans")
        if not model.architecture.log_scale or not isinstance(scans, dict):
            return Seen()
        voxels = scans.get("voxels")
        if not isinstance(voxels, list) or not voxels or not all(isinstance(v, int | float) and v > 0 for v in voxels):
            return Seen()
        return Seen((float(min(voxels)), float(max(voxels))))


def median_spacing(spacing: np.ndarray) -> float:  # (N,)
    """The median, from a sample of the points."""
    some = spacing[:: max(1, len(spacing) // _SAMPLED)]
    return float(np.partition(some, len(some) // 2)[len(some) // 2])


def complaint_of(model: Model, points: np.ndarray) -> str | None:  # (N, 3), N >= 16
    """What is wrong with the density of points, if anything is, for those who do not ask for their ellipsoids."""
    k = min(_NEIGHBORS, len(points))
    distances = KDTree(points).nearest(k)[0][:, 1:]  # (N, k - 1), without the point itself
    spacing = spacing_per_radius(k - 1) * np.sqrt((distances**2).mean(axis=1))
    return _complaint(model.name, Seen.by(model), len(points), median_spacing(spacing))


def warn_of_density(model: Model, count: int, spacing: float, stacklevel: int = 3) -> None:
    """One `DensityWarning`, at the caller's caller, if `count` points `spacing` meters apart are not what a model knows."""
    found = _complaint(model.name, Seen.by(model), count, spacing)
    if found is not None:
        warnings.warn(found, DensityWarning, stacklevel=stacklevel)


def _complaint(name: str, seen: Seen, count: int, spacing: float) -> str | None:
    if seen.voxels is not None and seen.spacing is not None:
        (fine, coarse), (low, high) = seen.voxels, seen.spacing
        known = f"the model '{name}' learned from voxels of {fine:g} to {coarse:g} m and is good for {low:g} to {high:g} m"
        if spacing < low:
            return (
                f"points are {spacing:.2g} m apart (median); {known}. Thin them: poli.voxel_downsample(scan, {fine:g}), "
                f"--voxel {fine:g} on the command line; if these are no meters, scale them first"
            )
        if spacing > high:
            unit = "millimeters" if low <= spacing / _MILLIMETERS <= high else "another unit"
            return (
                f"points are {spacing:.3g} m apart (median); {known}. If they are in {unit}, scale them to meters; if the cloud is "
                "so sparse, or was thinned so far, take smaller voxels, or do not trust normals and sizes"
            )
    if count < FEWEST:
        return f"{count} points; the model '{name}' needs {FEWEST} or more to see how the surface runs. Give more of the cloud"
    return None
