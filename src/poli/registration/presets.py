"""Numbers of registration: those tuned or set by hand, each with what it rests on, the effort of the search, and presets by sensor.

Tables are in docs/results. "By hand" means that no table compares other values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.configs import DensifyConfig
from poli.errors import InputError, did_you_mean
from poli.options import check, option
from poli.scan import Scan, ScanLike

# --- The search.
# For objects, relative to the target's radius (the largest distance of a point to the centroid). By hand.
FEATURE_RADIUS = 0.3
NOISE_BOUND = 0.05
SCALES = np.array([1.0, 5 / 3, 10 / 3])  # times the feature radius: small ones distinguish places, large ones sides. By hand
ACROSS = 0.4  # times the noise bound: how far apart refined clouds may be across the surface. By hand
SAME_WAY = 0.8  # minimum cosine of the angle between normals of one surface. By hand
THICKNESS = 0.05  # variance across a surface, relative to 1 along it: sparse points on curved surfaces are not thin planes. By hand
SHARPEN = 1.4  # of graduated non-convexity, per round, as in its paper

# --- Scans.
# Degrees. Two scans of one place differ by the slope of the ground and the sway of the sensor: by at most 4 in six sequences from
# cars, 16 in simulated walks, and 27 in a sequence of a handheld sensor. Wrong poses that lay walls on the ground tip the vertical
# by about 90.
MAX_TILT = 45.0
STANDING = 0.5  # maximum |z| of the normal of an upright surface. By hand
LEAST = 16  # minimum number of points to search for a pose. By hand

# --- The verdict.
DIRECTIONS = 5.0  # degrees: size of a cell of directions, in which the nearest surface hides those behind it. By hand
IN_FRONT = 0.9  # of the range of the nearest surface, less the reach: points nearer than that were looked through. By hand
# The constant, then one coefficient per kind of `Evidence`, of a logistic regression on pairs of real and simulated scans, half of
# which show different places. `python -m benchmarks verdict` fits them, and evaluates them on other sequences and worlds
# (docs/results/verdict.md). True: upright scans; False: any rotation.
COEFFICIENTS = {True: (-0.2, 2.66, -33.58, 7.22, 9.41), False: (1.51, 0.0, -33.06, 9.54, 13.08)}

# --- Which preset two clouds need.
MOST_OF_AN_OBJECT = 20_000  # points. With more, the search takes minutes, and lengths relative to the radius are meaningless
LEAST_OF_A_SCAN = 2_000  # points. By hand
DENSE_SCAN = 45_000  # returns: above any sensor of 32 rings
INDOORS = 15.0  # meters: 95 % of the returns are nearer. In real sequences, they are within 8 m indoors and 33 to 62 m outdoors
SMALLEST = 1.5  # meters: nothing smaller is the surroundings of a sensor
# The range of the 99th percentile, relative to the median. Scans from cars have 4 to 7. Points on an object, seen from anywhere
# inside or near it, hardly reach 2.
SPREAD, CLEAR_SPREAD = 2.0, 3.0


@dataclass(frozen=True)
class SearchConfig:
    """Effort of the pose search. Larger numbers are more reliable and slower."""

    neighbors: int = option(200, "Maximum per feature.", least=2)
    candidates: int = option(3, "Two points match if each is among this many most similar points of the other.", least=1)
    matches: int = option(1000, "Maximum; the most similar are used.", least=3)
    clique_nodes: int = option(1000, "Branches in the search for the maximum clique; a proof may need more.", least=0)
    hypotheses: int = option(512, "Maximum number of poses scored, from the largest cliques.", least=1)
    scoring_points: int = option(100, "Source points used to score a hypothesis.", least=1)
    refined: int = option(15, "Number of hypotheses refined.", least=1)
    refining_points: int = option(300, "Source points used to refine one.", least=3)

    def __post_init__(self) -> None:
        check(self)


_SAMPLED = DensifyConfig(per_point=3, max_sigma=12.0)


@dataclass(frozen=True)
class ScanPreset:
    """Registration settings for a type of sensor. Lengths are in meters."""

    densify: DensifyConfig = _SAMPLED  # `per_point=0`: do not densify
    voxel: float = option(1.0, "One point per voxel, for features and for the search.", unit="meters", above=0.0)
    max_range: float = option(60.0, "From the sensor; points beyond are too sparse to be recognized.", unit="meters", above=0.0)
    feature_radius: float = option(2.0, "Of the smallest of three features.", unit="meters", above=0.0)
    noise_bound: float = option(0.6, "Maximum distance between points of one surface in two scans.", unit="meters", above=0.0)
    search: SearchConfig = SearchConfig()

    def __post_init__(self) -> None:
        check(self)


_SPARSE = ScanPreset()
# Scans of 64 and more rings have few gaps to fill: samples only cost time (docs/results/registration.md).
_DENSE = ScanPreset(DensifyConfig(per_point=0))
# Rooms, where everything is near. With an OS0-64 in validation worlds, it found 10 of 10 poses between scans 0 to 3 m apart (8 m in
# corridors), with a median error of 7 mm; voxels of 0.5 m found 9, those of 1 m 8. Of 8 poses between scans twice as far apart, it
# found 3, as did 0.5 m; 1 m found 6. In the first half of a real sequence of a handheld sensor, every size found all poses.
_INDOOR = ScanPreset(
    DensifyConfig(per_point=1, max_sigma=12.0, voxel=0.1), voxel=0.3, max_range=15.0, feature_radius=0.6, noise_bound=0.18
)
PRESETS = {"vlp16": _SPARSE, "hdl32e": _SPARSE, "hdl64e": _DENSE, "os1_64": _DENSE, "os2_128": _DENSE, "indoor": _INDOOR}
AUTO, OBJECTS = "auto", "objects"

_OF_SENSORS = {"ring", "time"}  # fields


def find_preset(preset: str | ScanPreset) -> ScanPreset:
    """Return the settings of a preset for scans."""
    if isinstance(preset, ScanPreset):
        return preset
    if preset not in PRESETS:
        hint = did_you_mean(preset, [*PRESETS, AUTO, OBJECTS])
        raise InputError(f"preset is {preset!r}; expected one of {', '.join(PRESETS)}, {AUTO}, {OBJECTS}{hint}")
    return PRESETS[preset]


def choose_preset(source: ScanLike, target: ScanLike) -> str:
    """Return the preset for two clouds: "objects" unless both look like scans with the sensor at the origin; "indoor" if nearly all
    returns are within 15 m; otherwise that of a sparse or a dense sensor, by the number of returns."""
    clouds = [Scan.of(source, "source").clean(), Scan.of(target, "target").clean()]
    ranges = [np.linalg.norm(scan.points, axis=1) for scan in clouds]
    if not all(_is_scan(scan, of_scan) for scan, of_scan in zip(clouds, ranges, strict=True)):
        return OBJECTS
    if max(np.percentile(of_scan, 95) for of_scan in ranges) < INDOORS:
        return "indoor"
    return "hdl64e" if min(map(len, clouds)) > DENSE_SCAN else "vlp16"


def _is_scan(scan: Scan, ranges: np.ndarray) -> bool:  # (N,)
    if len(scan) < LEAST_OF_A_SCAN:
        return False
    median, reach, farthest = np.percentile(ranges, [50, 95, 99])
    if not reach >= SMALLEST:
        return False
    if _OF_SENSORS & set(scan.fields):
        return True
    if len(scan) > MOST_OF_AN_OBJECT:  # not an object that can be registered; a narrow indoor sensor may see one wall
        return bool(reach < INDOORS or farthest >= SPREAD * median)
    return bool(farthest >= CLEAR_SPREAD * median)
