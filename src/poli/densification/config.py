"""Options of densification."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.beams.corrections import BeamCalibration
from poli.errors import InputError
from poli.options import real_number, whole_number
from poli.scan import Scan

ORDERS = ("originals", "time")
PURPOSES = ("odometry", "features")
_CHOSEN_BY_PURPOSE = ("max_error", "per_point", "max_sigma", "max_thickness", "rings")
REACH = 12.0  # standard deviations, if only per_point is given
MOST_RINGS = 256  # numbers of rings often have one byte


@dataclass(frozen=True)
class DensifyConfig:
    """Options of densification. The defaults come from `python -m benchmarks recovered` (docs/densify.md); the paper samples
    seven points within 0.05 sigma of ellipsoids that are about ten times as large as calibrated ones, which is
    `DensifyConfig(per_point=7, max_sigma=0.5, flat=False, max_thickness=None)`.

    By default, the gaps between the rings of a scan are filled where the expected error is at most `max_error`. Scans without rings
    or gaps get samples of their ellipsoids instead, and so do all scans if `per_point` or `max_sigma` is given.

    `purpose="features"` does both, with more samples that are less accurate, and chooses these numbers itself.
    """

    per_point: int | None = None  # samples per ellipsoid, that is per voxel, or per point if voxel is 0; None: 1
    # Maximum distance of a sample from its parent, in standard deviations. None: 12 with per_point, else as max_error allows.
    max_sigma: float | None = None
    flat: bool = True  # samples lie in the plane through the ellipsoid's mean, across its normal
    model: str = "lidar"  # of the ellipsoids: a shipped model, the path of a .safetensors file, or "pca"
    voxel: float = 0.2  # meters; one ellipsoid per voxel of the scan. 0: one per point
    upright: bool = True  # the sensor's z axis points up; the network uses this
    planarity: float = 0.0  # ellipsoids less planar than this are not sampled; 1 is a plane
    max_range: float | None = 120.0  # meters from the sensor; ellipsoids farther away are not sampled. None: no limit
    max_thickness: float | None = 0.05  # meters; with max_sigma, thicker ellipsoids are not sampled. None: no limit
    max_points: int | None = None  # total, including the originals; samples are dropped evenly. None: no limit
    sample_voxel: float = 0.0  # meters; at most one sample per voxel of this size, none in voxels with an original. 0: no limit
    seed: int = 0
    calibration: BeamCalibration | None = None  # corrects the points first, originals included
    max_error: float = 0.05  # meters: accepted error of samples, expected across the surface
    rings: int | None = None  # wanted rings, which also get numbers of their own; None: those of a sensor with 64 beams
    order: str = "originals"  # "originals": the points of the scan, then the samples; "time": by time and ring
    purpose: str = "odometry"  # "features": for registration by local features, which suffer more from holes than from noise
    auto: bool = False  # leave scans as they are where denser ones are unlikely to help other systems

    def __post_init__(self) -> None:
        real_number(self.max_error, "max_error", "a positive number of meters", above=True)
        if self.rings is not None and not 2 <= whole_number(self.rings, "rings", least=2) <= MOST_RINGS:
            raise InputError(f"rings is {self.rings!r}; expected at most {MOST_RINGS}")
        if self.order not in ORDERS:
            raise InputError(f"order is {self.order!r}; expected {' or '.join(ORDERS)}")
        if self.purpose not in PURPOSES:
            raise InputError(f"purpose is {self.purpose!r}; expected {' or '.join(PURPOSES)}")
        for name in _CHOSEN_BY_PURPOSE if self.purpose == "features" else ():
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise InputError(f"{name} is {getattr(self, name)!r}; purpose 'features' chooses it, remove one of the two")
        if not isinstance(self.auto, bool):
            raise InputError(f"auto is {self.auto!r}; expected True or False")
        if self.per_point is not None:
            whole_number(self.per_point, "per_point", least=0)
        whole_number(self.seed, "seed", least=0)
        if self.max_sigma is not None:
            real_number(self.max_sigma, "max_sigma", "a number of standard deviations of at least 0, or None")
        if self.rings is not None and not self.fills_gaps:
            raise InputError(f"rings is {self.rings}; rings are filled only without per_point and max_sigma, remove those")
        for name in ("voxel", "sample_voxel"):
            real_number(getattr(self, name), name, "a number of meters of at least 0")
        for name in ("max_range", "max_thickness"):
            if getattr(self, name) is not None:
                real_number(getattr(self, name), name, "a positive number of meters, or None for no limit", above=True)
        if self.max_points is not None:
            whole_number(self.max_points, "max_points", least=1)
        if not 0.0 <= real_number(self.planarity, "planarity", "a number from 0 to 1") <= 1.0:
            raise InputError(f"planarity is {self.planarity!r}; expected a number from 0 to 1")
        if self.calibration is not None and not isinstance(self.calibration, BeamCalibration):
            raise InputError(f"calibration is a {type(self.calibration).__name__}; expected a BeamCalibration, or None")
        if not isinstance(self.model, str) or not self.model:
            raise InputError(f"model is {self.model!r}; expected lidar, pca, or the path of a .safetensors file")

    @property
    def fills_gaps(self) -> bool:
        """Whether gaps between rings are filled, if a scan has rings."""
        return self.per_point is None and self.max_sigma is None

    @property
    def reach(self) -> float | None:
        """How far samples of ellipsoids reach, in standard deviations; None: as far as `max_error` allows."""
        return REACH if self.max_sigma is None and self.per_point is not None else self.max_sigma

    @property
    def samples_each(self) -> int:
        """Samples per ellipsoid of scans whose gaps are not filled."""
        return 1 if self.per_point is None else self.per_point


# --- Whether denser scans are likely to pay: not for scans that are dense already, or of near surfaces.
#
# The rule is for odometry and registration by other systems, as measured in docs/results. A viewer may profit in any case.


# Samples help where they fill gaps between rings (docs/densify.md). With 64 beams, registration by others had nothing left to gain,
# and with 128, odometry gained least, while every scan takes longer.
MANY_BEAMS = 64
MANY_RETURNS = 64 * 1024  # of a scan without rings: as many as 64 beams have with 1,024 returns each
# At this range, the rings of a VLP-16, 2 degrees apart, are 0.17 m apart: less than the voxels of the ellipsoids (0.2 m). There are
# no gaps between nearer rings, and the samples fall among the measured points.
NEAR = 5.0  # meters, median range
_LEAST = 16  # returns; fewer say nothing about the sensor


def why_little(scan: Scan) -> str:
    """Return in one sentence why denser scans are unlikely to help other systems, or "" if they may."""
    returns = scan.clean()
    if len(returns) < _LEAST:
        return ""
    reasons = [reason for reason in (_dense(returns), _near(returns)) if reason]
    if not reasons:
        return ""
    return f"{' and '.join(reasons)}: more points are unlikely to help other systems here, and they take more time"


def _dense(scan: Scan) -> str:
    rings = scan.fields.get("ring")
    if rings is not None and rings.ndim == 1:
        beams = len(np.unique(rings))
        return f"the scan has {beams} beams" if beams >= MANY_BEAMS else ""
    return f"the scan has {len(scan)} returns, as of {MANY_BEAMS} beams or more" if len(scan) >= MANY_RETURNS else ""


def _near(scan: Scan) -> str:
    distance = float(np.median(np.linalg.norm(scan.points.astype(np.float64), axis=1)))
    return f"half of the returns are nearer than {distance:.1f} m" if distance < NEAR else ""
