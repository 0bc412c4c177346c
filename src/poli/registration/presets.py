"""Settings of scan registration: presets by sensor, and the choice of one from the clouds themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from poli.configs import DensifyConfig
from poli.errors import InputError, did_you_mean
from poli.options import real_number
from poli.registration.search import SearchConfig
from poli.registration.tuned import CLEAR_SPREAD, DENSE_SCAN, INDOORS, LEAST_OF_A_SCAN, MOST_OF_AN_OBJECT, SMALLEST, SPREAD
from poli.scan import Scan, ScanLike


@dataclass(frozen=True)
class ScanPreset:
    """Registration settings for a type of sensor. Lengths are in meters."""

    densify: DensifyConfig = field(
        default_factory=lambda: DensifyConfig(per_point=3, max_sigma=12.0)
    )  # `per_point=0`: do not densify
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
# Rooms, where everything is near. With an OS0-64 in validation worlds, it found 10 of 10 poses between scans 0 to 3 m apart (8 m in
# corridors), with a median error of 7 mm; voxels of 0.5 m found 9, those of 1 m 8. Of 8 poses between scans twice as far apart, it
# found 3, as did 0.5 m; 1 m found 6. In the first half of a real sequence of a handheld sensor, every size found all poses.
_INDOOR = ScanPreset(
    DensifyConfig(per_point=1, max_sigma=12.0, voxel=0.1), voxel=0.3, max_range=15.0, feature_radius=0.6, noise_bound=0.18
)
PRESETS = {"vlp16": _SPARSE, "hdl32e": _SPARSE, "hdl64e": _DENSE, "os1_64": _DENSE, "os2_128": _DENSE, "indoor": _INDOOR}
AUTO, OBJECTS = "auto", "objects"
_KNOWN = ", ".join(PRESETS)

_OF_SENSORS = {"ring", "time"}  # fields


def find_preset(preset: str | ScanPreset) -> ScanPreset:
    """Return the settings of a preset for scans."""
    if isinstance(preset, ScanPreset):
        return preset
    if preset == OBJECTS:
        raise InputError(f"the clouds look like an object, not like scans; name one with preset=: {_KNOWN}")
    if preset not in PRESETS:
        hint = did_you_mean(preset, [*PRESETS, AUTO, OBJECTS])
        raise InputError(f"preset is {preset!r}; expected one of {_KNOWN}, {AUTO}, {OBJECTS}{hint}")
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
