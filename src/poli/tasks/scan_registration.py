"""Find the pose between two scans of one place: estimate ellipsoids and normals, densify, downsample, and search."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from poli.errors import DegenerateError, DoubtfulPose, InputError, did_you_mean
from poli.scan import ScanLike, points_of
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.sampling import sample_field, scan_field
from poli.tasks.pose_search import Registration, SearchConfig, register_by_normals
from poli.validation import real_number
from poli.voxels import voxel_numbers

# Upright surfaces such as walls and trunks distinguish places; the ground fits any other ground. In validation worlds and real
# 16-beam sequences, 0.35 to 0.91 of them agreed if the pose was right, and 0.03 to 0.27 if it was wrong or the places differed.
_STANDING = 0.5  # maximum |z| of the normal
DOUBTFUL_AGREEMENT = 0.3
_LEAST = 16  # minimum number of points to search for a pose


@dataclass(frozen=True)
class ScanPreset:
    """Registration settings for a type of sensor. Lengths are in meters."""

    # `per_point=0`: do not densify
    densify: DensifyConfig = field(default_factory=lambda: DensifyConfig(per_point=3, max_sigma=12.0))
    voxel: float = 1.0  # one point per voxel, for features and for the search
    max_range: float = 60.0  # from the sensor; points beyond are too sparse to be recognized
    feature_radius: float = 2.0  # of the smallest of three features
    noise_bound: float = 0.6  # maximum distance between points of the two scans on one surface
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        for name in ("voxel", "max_range", "feature_radius", "noise_bound"):
            real_number(getattr(self, name), name, "a positive number of meters", above=True)


_SPARSE = ScanPreset()
# Scans of 64 and more rings have few gaps to fill: samples only cost time (docs/results/registration.md).
_DENSE = ScanPreset(DensifyConfig(per_point=0))
PRESETS = {"vlp16": _SPARSE, "hdl32e": _SPARSE, "hdl64e": _DENSE, "os1_64": _DENSE, "os2_128": _DENSE}


class ScanSurface(NamedTuple):
    """The points of a scan used for registration: one per voxel."""

    points: np.ndarray  # (V, 3)
    normals: np.ndarray  # (V, 3) unit, toward the sensor
    rows: np.ndarray  # (V,) a row of the scan in the voxel, or the parent of a sample in it


def register_scans(
    source: ScanLike,  # (N, 3)
    target: ScanLike,  # (M, 3)
    preset: str | ScanPreset = "vlp16",
    *,
    feature_radius: float | None = None,
    noise_bound: float | None = None,
    search: SearchConfig | None = None,
) -> Registration:
    """Find the pose T_target_source between two scans, each in its sensor frame, with the sensor at the origin.

    No initial guess is needed. In the result, `inliers` and `matches` are rows of the scans. Even scans of different places have a
    best pose, so a `DoubtfulPose` warning is issued if few upright surfaces coincide.
    """
    chosen = find_preset(preset)
    surfaces = [scan_surface(points_of(scan, name), chosen, name) for scan, name in ((source, "source"), (target, "target"))]
    (P, n_P, rows_P), (Q, n_Q, rows_Q) = surfaces
    found = register_by_normals(
        P, n_P, Q, n_Q,
        feature_radius=chosen.feature_radius if feature_radius is None else feature_radius,
        noise_bound=chosen.noise_bound if noise_bound is None else noise_bound,
        search=chosen.search if search is None else search,
        deciding=np.abs(n_P[:, 2]) <= _STANDING,
    )  # fmt: skip
    if found.agreement < DOUBTFUL_AGREEMENT:
        warnings.warn(
            f"only {found.agreement:.0%} of the upright surfaces in the source are found in the target; the scans may show "
            "different places or be too far apart. Do not trust this pose without other evidence",
            DoubtfulPose,
            stacklevel=2,
        )
    return replace(found, inliers=_rows(found.inliers, rows_P, rows_Q), matches=_rows(found.matches, rows_P, rows_Q))


def find_preset(preset: str | ScanPreset) -> ScanPreset:
    if isinstance(preset, ScanPreset):
        return preset
    if preset not in PRESETS:
        hint = did_you_mean(preset, PRESETS)
        raise InputError(f"{{argument}} is {preset!r}; expected one of {', '.join(PRESETS)}{hint}", argument="preset", remedy="")
    return PRESETS[preset]


def scan_surface(points: np.ndarray, preset: ScanPreset, name: str = "scan") -> ScanSurface:  # (N, 3)
    """Return the ellipsoid means and samples, with the normals of their ellipsoids, averaged per voxel."""
    of_scan = scan_field(points, preset.densify)
    if of_scan is None:
        raise DegenerateError(f"{name}: {len(points)} points are too few to register a scan")
    samples = sample_field(of_scan, points, preset.densify)
    normals = of_scan.field.oriented_normals(np.zeros(3))
    every_point = np.concatenate([of_scan.field.means, samples.points])
    every_normal = np.concatenate([normals, normals[samples.ellipsoids]])
    every_row = np.concatenate([of_scan.rows[of_scan.members[of_scan.first]], samples.parents])
    near = np.einsum("ni,ni->n", every_point, every_point) <= preset.max_range**2
    if near.sum() < _LEAST:
        raise DegenerateError(f"{name}: {near.sum()} points within {preset.max_range:g} m are too few to register a scan")
    every_point, every_normal, every_row = every_point[near], every_normal[near], every_row[near]
    voxels, first = voxel_numbers(every_point, preset.voxel)
    means, sums = _sums(voxels, every_point) / np.bincount(voxels)[:, None], _sums(voxels, every_normal)
    length = np.linalg.norm(sums, axis=1)
    clear = length > 0.0  # opposite normals in one voxel may cancel
    return ScanSurface(means[clear], sums[clear] / length[clear, None], every_row[first[clear]])


def _sums(groups: np.ndarray, values: np.ndarray) -> np.ndarray:  # (N,), (N, 3) -> (V, 3)
    return np.stack([np.bincount(groups, values[:, axis]) for axis in range(3)], axis=1)


def _rows(pairs: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:  # (K, 2), (V,), (W,) -> (K, 2)
    return np.stack([source[pairs[:, 0]], target[pairs[:, 1]]], axis=1)
