"""Find the pose between two scans of one place: estimate ellipsoids and normals, densify, downsample, and search."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from poli.errors import DoubtfulPose
from poli.scan import ScanLike, points_of
from poli.tasks.pose_search import Registration, SearchConfig, register_by_normals
from poli.tasks.scan_presets import AUTO, ScanPreset, choose_preset, find_preset
from poli.tasks.scan_surface import scan_surface
from poli.tasks.verdict import COEFFICIENTS, evidence_of, probability_of

# Degrees. Two scans of one place differ by the slope of the ground and the sway of the sensor: by at most 4 in six sequences from
# cars, 16 in simulated walks, and 27 in a sequence of a handheld sensor. Wrong poses that lay walls on the ground tip the vertical
# by about 90.
MAX_TILT = 45.0


def register_scans(
    source: ScanLike,  # (N, 3)
    target: ScanLike,  # (M, 3)
    preset: str | ScanPreset = "vlp16",
    *,
    upright: bool = True,
    feature_radius: float | None = None,
    noise_bound: float | None = None,
    search: SearchConfig | None = None,
) -> Registration:
    """Find the pose T_target_source between two scans, each in its sensor frame, with the sensor at the origin.

    No initial guess is needed. In the result, `inliers` and `matches` are rows of the scans. Even scans of different places have a
    best pose, so the result has the `probability` that the pose is right; below 0.5, a `DoubtfulPose` warning is issued.

    `upright`: the z axes of both sensors point up. Poses that tip the vertical by more than 45 degrees are not considered, and only
    upright surfaces are evidence. Otherwise any rotation is considered, and all surfaces are evidence.
    """
    chosen = find_preset(choose_preset(source, target) if preset == AUTO else preset)
    if not upright:
        chosen = replace(chosen, densify=replace(chosen.densify, upright=False))
    P, Q = (scan_surface(points_of(scan, name), chosen, name) for scan, name in ((source, "source"), (target, "target")))
    noise = chosen.noise_bound if noise_bound is None else noise_bound
    found = register_by_normals(
        P.points, P.normals, Q.points, Q.normals,
        feature_radius=chosen.feature_radius if feature_radius is None else feature_radius,
        noise_bound=noise,
        search=chosen.search if search is None else search,
        deciding=P.standing if upright else None,
        max_tilt=MAX_TILT if upright else None,
    )  # fmt: skip
    evidence = evidence_of(P, Q, found.T_target_source, 2.0 * noise, found.margin, upright)
    probability = probability_of(evidence, COEFFICIENTS[upright])
    if probability < 0.5:
        warnings.warn(
            f"probably wrong: the pose is right with a probability of {probability:.0%}. {evidence.agreement:.0%} of the "
            f"{'upright ' if upright else ''}surfaces of a scan are found in the other, and the other sensor looked through "
            f"{evidence.contradiction**2:.0%}; the scans may show different places or be too far apart. Do not trust this pose "
            "without other evidence",
            DoubtfulPose,
            stacklevel=2,
        )
    inliers, matches = (_rows(pairs, P.rows, Q.rows) for pairs in (found.inliers, found.matches))
    return replace(found, inliers=inliers, matches=matches, probability=probability)


def _rows(pairs: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:  # (K, 2), (V,), (W,) -> (K, 2)
    return np.stack([source[pairs[:, 0]], target[pairs[:, 1]]], axis=1)
