"""Draw the samples of a scan: between its rings, or in its ellipsoids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from poli.densification.config import DensifyConfig
from poli.densification.gaps import LocalPlanes, fill_gaps, in_free_space
from poli.densification.samples import Samples, ScanField, no_samples, scan_field, scan_generator, suitable, thinned_out
from poli.ellipsoids import Ellipsoids

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
    between = fill_gaps(of_scan, points, config, beams) if config.fills_gaps else None
    return sample_field(of_scan, points, config) if between is None else between


def sample_field(of_scan: ScanField, points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3): the scan
    """Return samples drawn from the ellipsoids, within a number of sigmas, or as far as the expected error allows."""
    # 1. Choose the ellipsoids to sample, and how far.
    field, returns, counts = of_scan.field, of_scan.returns, of_scan.counts
    surfaces = LocalPlanes(field)
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
    parents = of_scan.members[of_scan.first[chosen, None] + turn].reshape(-1)  # (E k,) rows of `returns`
    samples = returns[parents] + offsets
    if config.flat:  # project onto the plane through the ellipsoid's mean, which has less noise than any single return
        flat, means, normals = samples.reshape(-1, k, 3), field.means[chosen], field.axes[chosen, :, 0]
        flat -= np.einsum("eki,ei->ek", flat - means[:, None, :], normals)[:, :, None] * normals[:, None, :]
    drawn = Samples(samples, of_scan.rows[parents], np.repeat(chosen, k))
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
    joined = Samples(*(np.concatenate(pair) for pair in zip(between[:3], around[:3], strict=True)))
    turn = np.concatenate([np.zeros(len(between.points), np.intp), 1 + np.arange(len(around.points)) % ellipsoids.samples_each])
    return thinned_out(joined, turn, of_scan.returns, points, config)
