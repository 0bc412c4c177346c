"""Draw the samples of a scan: between its rings, or in its ellipsoids, and assign each to a parent point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.estimation import estimate
from poli.estimation.distinct import distinct_count
from poli.estimation.inference import UP
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.gap_filling import fill_gaps
from poli.tasks.densify.samples import Samples, ScanField, no_samples, scan_generator, suitable, thinned_out
from poli.tasks.densify.surface import Surfaces, in_free_space
from poli.voxels import check_reach, voxel_numbers

LEAST = 16  # minimum number of points for the network
# Features describe neighborhoods of meters, and a hole changes them more than an error of decimeters. So nearly all gaps are
# filled, and ellipsoids of any thickness continue the surface past edges and beyond the highest ring. Chosen on KITTI raw 0013
# (docs/densify.md).
_FOR_FEATURES: dict[str, Any] = {"purpose": "odometry", "max_points": None, "sample_voxel": 0.0}
_GAPS_FOR_FEATURES = {**_FOR_FEATURES, "max_error": 2.0}  # meters
_ELLIPSOIDS_FOR_FEATURES = {**_FOR_FEATURES, "per_point": 5, "max_sigma": 12.0, "max_thickness": None}


def draw_samples(points: np.ndarray, config: DensifyConfig, beams: int | None = None) -> Samples:  # (N, 3)
    """Return the samples of a scan, in the order of its columns or ellipsoids. `beams` of the sensor matter to `rings` only.

    Rows that are not returns (not finite, or zero) get no samples, nor do scans with fewer than 16 distinct returns. The same scan
    and configuration always give the same samples; different scans give independent samples.
    """
    of_scan = scan_field(points, config) if config.per_point != 0 else None
    if of_scan is None:
        return no_samples()
    if config.purpose == "features":
        return _sample_for_features(of_scan, points, config)
    if config.fills_gaps:
        between = fill_gaps(of_scan, points, config, beams)
        if between is not None:
            return between
    return sample_field(of_scan, points, config)


def scan_field(points: np.ndarray, config: DensifyConfig) -> ScanField | None:  # (N, 3)
    """Estimate the ellipsoids of a scan, one per voxel. Return None if there are too few."""
    rows, returns = _returns(points)
    centers, members, first, count = _group(returns, config.voxel)
    if len(centers) < LEAST or distinct_count(centers) < LEAST:
        return None
    return ScanField(rows, returns, _ellipsoids(centers, config), members, first, count)


def ellipsoid_places(points: np.ndarray, config: DensifyConfig) -> tuple[np.ndarray, np.ndarray]:  # (N, 3)
    """Return the valid returns of a scan (R, 3) and the positions of its ellipsoids (E, 3), even if too few to estimate."""
    _, returns = _returns(points)
    return returns, _group(returns, config.voxel)[0]


def _returns(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (R,) rows, (R, 3) float64
    rows = np.flatnonzero(np.isfinite(points).all(axis=1) & points.any(axis=1))
    return rows, points[rows].astype(np.float64)


def sample_field(of_scan: ScanField, points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3): the scan
    """Return samples drawn from the ellipsoids, within a number of sigmas, or as far as the expected error allows."""
    # 1. Choose the ellipsoids to sample, and how far.
    rows, returns, field, members, first, counts = of_scan
    surfaces = Surfaces(field)
    worth = suitable(field, config)
    reach = surfaces.reach_in_sigmas(config.max_error) if config.reach is None else np.full(len(field), config.reach)
    chosen = np.flatnonzero(worth & (reach > 0.0) if config.reach is None else worth)
    k = config.samples_each
    if not len(chosen) or not k:
        return no_samples()

    # 2. Draw k uniform offsets in each. They are added to the ellipsoid's returns in turn, not to their mean, so that the time and
    # ring of the parent also apply to the sample.
    centered = Ellipsoids.trusted(np.zeros((len(chosen), 3)), field.covariances[chosen])
    generator = scan_generator(points, config.seed)
    offsets = centered.sample(k, 1.0, seed=generator) * np.repeat(reach[chosen], k)[:, None]  # (E k, 3)
    turn = np.arange(k)[None, :] * counts[chosen, None] // k  # (E, k)
    parents = members[first[chosen, None] + turn].reshape(-1)  # (E k,) rows of `returns`
    samples = returns[parents] + offsets
    if config.flat:
        _flatten(samples.reshape(-1, k, 3), field.means[chosen], field.axes[chosen, :, 0])
    drawn = Samples(samples, rows[parents], np.repeat(chosen, k))
    numbers = np.tile(np.arange(k), len(chosen))

    # 3. A reach by error may leave the surface: drop samples where beams have passed.
    if config.reach is None:
        solid = np.flatnonzero(~in_free_space(drawn, returns, surfaces, config.max_error))
        drawn, numbers = drawn.select(solid), numbers[solid]
    return thinned_out(drawn, numbers, returns, points, config)


def _sample_for_features(of_scan: ScanField, points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3): the scan
    """Return samples between the rings and of all ellipsoids. Those between come first, and are the last to be thinned out."""
    ellipsoids = replace(config, **_ELLIPSOIDS_FOR_FEATURES)
    between = fill_gaps(of_scan, points, replace(config, **_GAPS_FOR_FEATURES)) or no_samples()
    around = sample_field(of_scan, points, ellipsoids)
    joined = Samples(
        np.concatenate([between.points, around.points]),
        np.concatenate([between.parents, around.parents]),
        np.concatenate([between.ellipsoids, around.ellipsoids]),
    )
    turn = np.concatenate([np.zeros(len(between.points), np.intp), 1 + np.arange(len(around.points)) % ellipsoids.samples_each])
    return thinned_out(joined, turn, of_scan.returns, points, config)


def _flatten(samples: np.ndarray, means: np.ndarray, normals: np.ndarray) -> None:  # (E, k, 3), (E, 3), (E, 3)
    """Project samples in place onto the plane through the ellipsoid's mean, which has less noise than any single return."""
    above = np.einsum("eki,ei->ek", samples - means[:, None, :], normals)
    samples -= above[:, :, None] * normals[:, None, :]


def _group(returns: np.ndarray, voxel: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return voxel means (E, 3), rows of returns grouped by voxel (R,), start of each group (E,), and size of each group (E,)."""
    if not voxel:
        every = np.arange(len(returns))
        return returns, every, every, np.ones(len(returns), np.intp)
    check_reach(returns, voxel)
    voxels, _ = voxel_numbers(returns, voxel)
    count = np.bincount(voxels)
    sums = [np.bincount(voxels, returns[:, axis]) for axis in range(3)]
    means = np.stack(sums, axis=1) / np.maximum(count, 1)[:, None]
    return means, np.argsort(voxels, kind="stable"), np.cumsum(count) - count, count


def _ellipsoids(centers: np.ndarray, config: DensifyConfig) -> Ellipsoids:
    return estimate(centers, model=config.model, up=UP if config.upright else None, warn=False, curvature=False)
