"""Options of densification."""

from __future__ import annotations

from dataclasses import dataclass

from poli.beam_calibration import BeamCalibration
from poli.errors import InputError
from poli.validation import real_number, whole_number


@dataclass(frozen=True)
class DensifyConfig:
    """Options of densification. The defaults come from `python -m benchmarks density` (docs/densify.md); those of the paper are
    `DensifyConfig(per_point=7, max_sigma=1.0, flat=False, max_thickness=None)`."""

    per_point: int = 1  # samples per ellipsoid, that is per voxel, or per point if voxel is 0
    max_sigma: float = 12.0  # maximum distance of a sample from its parent, in calibrated standard deviations
    flat: bool = True  # samples lie in the plane through the ellipsoid's mean, across its normal
    model: str = "lidar"  # of the ellipsoids: a shipped model, the path of a .safetensors file, or "pca"
    voxel: float = 0.2  # meters; one ellipsoid per voxel of the scan. 0: one per point
    upright: bool = True  # the sensor's z axis points up; the network uses this
    planarity: float = 0.0  # ellipsoids less planar than this are not sampled; 1 is a plane
    max_range: float | None = 120.0  # meters from the sensor; ellipsoids farther away are not sampled. None: no limit
    max_thickness: float | None = 0.05  # meters; ellipsoids with a larger smallest sigma are not sampled. None: no limit
    max_points: int | None = None  # total, including the originals; samples are dropped evenly. None: no limit
    sample_voxel: float = 0.0  # meters; at most one sample per voxel of this size, none in voxels with an original. 0: no limit
    seed: int = 0
    calibration: BeamCalibration | None = None  # corrects the points first, originals included

    def __post_init__(self) -> None:
        whole_number(self.per_point, "per_point", least=0)
        whole_number(self.seed, "seed", least=0)
        real_number(self.max_sigma, "max_sigma", "a number of standard deviations of at least 0")
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
