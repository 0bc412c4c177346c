"""`poli.register`: find the pose between two clouds of one object, or two scans of one place, without an initial guess."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from poli.configs import RegisterConfig
from poli.ellipsoids import Ellipsoids
from poli.errors import DoubtfulPose, InputError
from poli.options import configured, lists_options
from poli.registration import presets
from poli.registration.presets import MOST_OF_AN_OBJECT, ScanPreset, SearchConfig
from poli.registration.search import Registration, register_by_normals
from poli.registration.verdict import evidence_of, probability_of, scan_surface
from poli.scan import ScanLike, points_of


@lists_options(RegisterConfig)
def register(
    source: ScanLike,  # (N, 3)
    target: ScanLike,  # (M, 3)
    *,
    source_field: Ellipsoids | None = None,
    target_field: Ellipsoids | None = None,
    estimator: Callable[[np.ndarray], Ellipsoids] | None = None,
    search: SearchConfig | None = None,
    **options: Any,
) -> Registration:
    """Find the pose T_target_source between two clouds of one object or place, for any rotation and translation.

    Scans of a place need a `preset`: they are densified and downsampled, and their normals point to the sensor at the origin of
    each. Even scans of different places have a best pose, so the result has the `probability` that the pose is right; below 0.5, a
    `DoubtfulPose` warning is issued. Without a preset, the clouds show an object, and normals point away from each cloud's
    centroid. Objects should have a few hundred to a few thousand points; more than 20,000 are refused. Raises `DegenerateError` if
    too few matches agree.

    Args:
        source: the cloud to move.
        target: the cloud to move it to.
        source_field: ellipsoids of the source, one per point; estimated if not given. Not with a preset.
        target_field: ellipsoids of the target, likewise.
        estimator: computes ellipsoids from (N, 3) points; the trained network for objects if not given. Not with a preset.
        search: effort of the search. None: that of the preset, or the defaults.
    """
    config = configured(RegisterConfig, None, options)
    preset: Any = config.preset
    lengths: dict[str, Any] = {"feature_radius": config.feature_radius, "noise_bound": config.noise_bound}
    given = source_field is not None or target_field is not None or estimator is not None
    if preset == presets.AUTO:
        preset = presets.OBJECTS if given else presets.choose_preset(source, target)
    if preset is not None and preset != presets.OBJECTS:
        if given:
            raise InputError("preset: cannot be combined with source_field, target_field or estimator; leave out one or the other")
        return _register_scans(source, target, presets.find_preset(preset), config.upright, search=search, **lengths)
    source_points, target_points = points_of(source, "source", least=3), points_of(target, "target", least=3)
    for name, points in (("source", source_points), ("target", target_points)):
        if len(points) > MOST_OF_AN_OBJECT:
            raise InputError(
                f"{name}: {len(points)} points look like a scan, not an object; choose a preset "
                f"({', '.join(presets.PRESETS)}), or downsample an object to at most {MOST_OF_AN_OBJECT} points"
            )
    normals = []
    for name, points, field in (("source", source_points, source_field), ("target", target_points, target_field)):
        if field is None:
            field = (estimator or _trained)(points)
        if len(field) != len(points):
            raise InputError(f"{name}: {len(points)} points but {len(field)} ellipsoids; expected one per point")
        normals.append(field.oriented_normals(points.mean(axis=0), away=True))
    return register_by_normals(source_points, normals[0], target_points, normals[1], search=search, **lengths)


def _register_scans(
    source: ScanLike,
    target: ScanLike,
    chosen: ScanPreset,
    upright: bool,
    feature_radius: float | None,
    noise_bound: float | None,
    search: SearchConfig | None,
) -> Registration:
    """Estimate ellipsoids of two scans, densify, downsample, and search. `inliers` and `matches` become rows of the scans."""
    if not upright:
        chosen = replace(chosen, densify=replace(chosen.densify, upright=False))
    P, Q = (scan_surface(points_of(scan, name), chosen, name) for scan, name in ((source, "source"), (target, "target")))
    noise = chosen.noise_bound if noise_bound is None else noise_bound
    found = register_by_normals(
        P.points, P.normals, Q.points, Q.normals,
        feature_radius=chosen.feature_radius if feature_radius is None else feature_radius,
        noise_bound=noise,
        search=search or chosen.search,
        deciding=P.standing if upright else None,
        max_tilt=presets.MAX_TILT if upright else None,
    )  # fmt: skip
    evidence = evidence_of(P, Q, found.T_target_source, 2.0 * noise, found.margin, upright)
    probability = probability_of(evidence, presets.COEFFICIENTS[upright])
    if probability < 0.5:
        warnings.warn(
            f"probably wrong: the pose is right with a probability of {probability:.0%}. {evidence.agreement:.0%} of the "
            f"{'upright ' if upright else ''}surfaces of a scan are found in the other, and the other sensor looked through "
            f"{evidence.contradiction**2:.0%}; the scans may show different places or be too far apart. Do not trust this pose "
            "without other evidence",
            DoubtfulPose,
            stacklevel=3,
        )
    inliers, matches = (np.stack([P.rows[of[:, 0]], Q.rows[of[:, 1]]], axis=1) for of in (found.inliers, found.matches))
    return replace(found, inliers=inliers, matches=matches, probability=probability)


def _trained(points: np.ndarray) -> Ellipsoids:
    from poli.estimation import estimate

    return estimate(points, model="objects", warn=False)
