"""The first two steps: ellipsoids and densification, compared with the true surfaces of the town."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from poli.densification import densify
from poli.ellipsoids import Ellipsoids
from poli.estimation import estimate, pca
from poli.scan import Scan
from poli.voxels import voxel_downsample
from poli.worlds import World
from poli.worlds.sweep import true_normals

Result = TypeVar("Result")
VOXEL = 0.5  # meters
NEIGHBORS = (8, 12, 16, 24, 32)  # candidate k of PCA; the best one is reported
_CLOSE = 10.0  # degrees


def timed_again(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result and the seconds of the second of two calls; the first may include compilation."""
    work()
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


@dataclass(frozen=True)
class NormalErrors:
    """Errors of normals, ignoring their sign."""

    median: float  # degrees
    within_10: float  # share
    rmse: float  # degrees
    seconds: float  # for estimation


@dataclass(frozen=True)
class NormalFigures:
    voxel: float  # meters
    points: int  # one per voxel
    judged: int  # points with a true normal: leaves and returns between two surfaces have none
    poli: NormalErrors
    pca: NormalErrors  # each value with its best k on this scan; the time is that of `pca_k`
    pca_k: int  # k with the lowest median error; this field is drawn

    @property
    def lower(self) -> float:
        """The share by which POLI's median error is below PCA's."""
        return 1.0 - self.poli.median / self.pca.median


@dataclass(frozen=True, eq=False)
class Fields:
    cloud: Scan  # (N, 3), one point per voxel
    poli: Ellipsoids
    pca: Ellipsoids
    truth: np.ndarray  # (N, 3) true normals, NaN if there is none

    @property
    def pca_scale(self) -> float:
        """Factor on PCA's ellipsoids, which are as wide as their neighborhoods, that draws them at about the size of POLI's for
        comparing directions."""
        poli, rival = (float(np.median(np.sqrt(field.scales[:, 1] * field.scales[:, 2]))) for field in (self.poli, self.pca))
        return round(poli / rival, 2)


def compare_normals(scan: Scan) -> tuple[NormalFigures, Fields]:
    cloud, truth = voxel_downsample(scan.keep(), VOXEL), true_normals(scan, VOXEL)
    known = np.isfinite(truth[:, 0])
    poli, seconds = timed_again(lambda: estimate(cloud))
    rivals = {k: timed_again(lambda k=k: pca(cloud, k=k)) for k in NEIGHBORS}  # type: ignore[misc]
    errors = {k: _errors(field.normals[known], truth[known], took) for k, (field, took) in rivals.items()}
    best = min(errors, key=lambda k: errors[k].median)
    rival = NormalErrors(
        median=errors[best].median,
        within_10=max(e.within_10 for e in errors.values()),
        rmse=min(e.rmse for e in errors.values()),
        seconds=errors[best].seconds,
    )
    mine = _errors(poli.normals[known], truth[known], seconds)
    return NormalFigures(VOXEL, len(cloud), int(known.sum()), mine, rival, best), Fields(cloud, poli, rivals[best][0], truth)


def _errors(normals: np.ndarray, truth: np.ndarray, seconds: float) -> NormalErrors:  # (N, 3), (N, 3)
    sine, cosine = np.linalg.norm(np.cross(normals, truth), axis=1), np.abs(np.einsum("ni,ni->n", normals, truth))
    degrees = np.degrees(np.arctan2(sine, cosine))
    return NormalErrors(float(np.median(degrees)), float((degrees <= _CLOSE).mean()), float(np.sqrt((degrees**2).mean())), seconds)


# --- a denser scan


@dataclass(frozen=True)
class DensityFigures:
    """Distances are to the nearest surface of the world, in meters."""

    returns: int
    samples: int
    returns_median: float  # due to sensor noise
    samples_median: float
    samples_90: float  # 90th percentile of the samples
    seconds: float

    @property
    def grown(self) -> float:
        return (self.returns + self.samples) / self.returns


def compare_density(scan: Scan, T_world_scan: np.ndarray, world: World) -> tuple[DensityFigures, Scan]:  # (4, 4)
    """Run `densify` with its defaults. The denser scan has the returns first, then the samples."""
    dense, seconds = timed_again(lambda: densify(scan))
    off = world.distance(dense.points @ T_world_scan[:3, :3].T + T_world_scan[:3, 3])
    own, new = off[: len(scan)], off[len(scan) :]
    figures = DensityFigures(
        len(own), len(new), float(np.median(own)), float(np.median(new)), float(np.percentile(new, 90)), seconds
    )
    return figures, dense
