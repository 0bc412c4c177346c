"""Find the pose between two scans of one place: estimate ellipsoids and normals, densify, downsample, and search."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from poli.errors import DoubtfulPose
from poli.scan import ScanLike, points_of
from poli.tasks.pose_search import Registration, SearchConfig, register_by_normals
from poli.tasks.scan_presets import ScanPreset, find_preset
from poli.tasks.scan_surface import scan_surface

# Degrees. Two scans of one place differ by the slope of the ground and the sway of the sensor: 4 at most in six sequences from cars,
# 16 in simulated walks, and 27 between two scans of a sensor held in the hand. Wrong poses that stand walls on the ground tip the
# vertical by about 90.
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
    chosen = find_preset(preset)
    P, Q = (scan_surface(points_of(scan, name), chosen, name) for scan, name in ((source, "source"), (target, "target")))
    found = register_by_normals(
        P.points, P.normals, Q.points, Q.normals,
        feature_radius=chosen.feature_radius if feature_radius is None else feature_radius,
        noise_bound=chosen.noise_bound if noise_bound is None else noise_bound,
        search=chosen.search if search is None else search,
        deciding=P.standing if upright else None,
        max_tilt=MAX_TILT if upright else None,
    )  # fmt: skip
    return replace(found, inliers=_rows(found.inliers, P.rows, Q.rows), matches=_rows(found.matches, P.rows, Q.rows))


def _rows(pairs: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:  # (K, 2), (V,), (W,) -> (K, 2)
    return np.stack([source[pairs[:, 0]], target[pairs[:, 1]]], axis=1)
