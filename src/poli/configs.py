"""All options of the library's functions, which are also those of its commands. Small, so that `poli --help` is fast."""

from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from poli.beams.corrections import BeamCalibration, Spin
from poli.errors import InputError
from poli.options import check, option

if TYPE_CHECKING:
    from poli.lidar_odometry.gicp import GicpConfig

Against = Literal["map", "scan"]
OnLoss = Literal["stop", "restart"]
Deskew = Literal["auto", "on", "off", "azimuth"]
Order = Literal["originals", "time"]
Purpose = Literal["odometry", "features"]


@cache
def network_names() -> list[str]:
    """Names of the shipped networks."""
    return sorted(file.stem for file in (Path(__file__).parent / "estimation" / "models").glob("*.safetensors"))


def model_names() -> list[str]:
    """Names of the shipped networks, and pca."""
    return [*network_names(), "pca"]


# --- Options that several configurations have.


_shipped = "Model: a shipped one (see `poli models`)"
model_option = partial(
    option, "lidar", f"{_shipped}, pca, or the path of a .safetensors file.", names=model_names, ending=".safetensors"
)
network_option = partial(
    option, "lidar", f"{_shipped} or the path of a .safetensors file.", names=network_names, ending=".safetensors"
)
_upright = partial(option, True, "Whether the sensor's z axis points up, which the network uses.", flag="--upright/--tilted")
_min_range = partial(option, 0.0, "Drop returns nearer than this (the vehicle itself).", unit="meters", least=0.0)
_max_range = partial(option, help="Drop returns farther than this.", unit="meters", above=0.0)
_odometry_voxel = partial(
    option, 0.0, "Voxel size of odometry; 0: chosen to leave about 4,500 points of the first scan.", unit="meters", least=0.0
)
_deskew = partial(
    option, "auto", "Undo the motion within each scan. auto: if points have times; azimuth: derive them (spinning sensors)."
)
calibration_option = partial(
    option, None, "Correct the beams first, with the result of `poli calibrate`.", read=BeamCalibration.load
)


def _check_ranges(least: float, most: float) -> None:
    if least >= most:
        raise InputError(f"min_range is {least}; it must be smaller than max_range={most}")


# --- Configurations.


@dataclass(frozen=True)
class EstimateConfig:
    """Options of `poli estimate` and `poli node estimate`."""

    model: str = model_option()
    voxel: float = option(0.0, "Downsample first, one point per voxel of this size; 0: use every point.", unit="meters", least=0.0)
    upright: bool = _upright()
    merged: bool = option(False, "The points were not all seen from the origin (a map).")
    k: int | None = option(None, "PCA: neighbors per point, including itself; default: 24.", least=3)
    radius: float | None = option(None, "PCA: use all neighbors within this radius instead of k.", unit="meters", above=0.0)
    motion: float | None = option(
        None, "Sizes for scans taken this far apart (0: the same place again); default: unknown.", unit="meters", least=0.0
    )
    curvature: bool = option(False, "Networks: also estimate the principal curvatures of the surface.")
    floor: float = option(0.0, "Thicken each ellipsoid by this length.", unit="meters", least=0.0)
    calibration: BeamCalibration | None = calibration_option()

    def __post_init__(self) -> None:
        check(self)
        for name in ("motion", "curvature") if self.model == "pca" else ("k", "radius"):
            if getattr(self, name) not in (None, False):
                raise InputError(f"{name} is {getattr(self, name)}; it is not for model {self.model!r}, remove one of the two")


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

    per_point: int | None = option(None, "Draw this many samples per ellipsoid, instead of filling gaps between rings.", least=0)
    max_sigma: float | None = option(
        None, "Draw samples this far, in standard deviations; default: 12 with per_point, else as max_error allows.", least=0.0
    )
    flat: bool = option(True, "Draw samples in the plane of the ellipsoid, perpendicular to its normal.")
    model: str = model_option()
    voxel: float = option(0.2, "Voxel size, one ellipsoid per voxel; 0: one per point.", unit="meters", least=0.0)
    upright: bool = _upright()
    planarity: float = option(0.0, "Sample only ellipsoids with at least this planarity; 1 is a plane.", least=0.0, most=1.0)
    max_range: float | None = option(120.0, "Do not sample beyond this range; 0: no limit.", unit="meters", least=0.0)
    max_thickness: float | None = option(
        0.05, "With per_point or max_sigma: skip thicker ellipsoids; 0: all.", unit="meters", least=0.0
    )
    max_points: int | None = option(None, "Maximum points per scan, originals included; 0: no limit.", least=0)
    sample_voxel: float = option(0.0, "At most one sample per voxel, none in voxels of originals.", unit="meters", least=0.0)
    seed: int = option(0, "Random seed; the same seed draws the same samples.", least=0)
    calibration: BeamCalibration | None = calibration_option()
    max_error: float = option(0.05, "Accepted error of samples; none where a larger one is expected.", unit="meters", above=0.0)
    rings: int | None = option(
        None, "Fill gaps to at most this many rings: ring r becomes k r, with k times as many.", least=2, most=MOST_RINGS
    )
    order: Order = option("originals", "Order of the points: originals (then samples), or time (and ring).")
    purpose: Purpose = option("odometry", "What for: odometry, or features (of global registration: more samples).")
    auto: bool = option(False, "Leave scans as they are where denser ones are unlikely to help other systems.")

    def __post_init__(self) -> None:
        check(self)
        for name in ("max_range", "max_thickness", "max_points"):
            object.__setattr__(self, name, getattr(self, name) or None)
        for name in ("max_error", "per_point", "max_sigma", "max_thickness", "rings"):
            if self.purpose == "features" and getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise InputError(f"{name} is {getattr(self, name)!r}; purpose 'features' chooses it, remove one of the two")
        if self.rings is not None and not self.fills_gaps:
            raise InputError(f"rings is {self.rings}; rings are filled only without per_point and max_sigma, remove those")

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


def _gicp() -> "GicpConfig":
    from poli.lidar_odometry.gicp import GicpConfig

    return GicpConfig()


@dataclass(frozen=True)
class OdometryConfig:
    """Options of odometry."""

    against: Against = option("map", "Align each scan to a map of all scans before it, or, as in the paper, to the previous scan.")
    voxel: float = _odometry_voxel()
    model: str = model_option()
    upright: bool = _upright()
    deskew: Deskew | bool = _deskew()
    spin: Spin = option(Spin(), "How the sensor spins, for deskewing by azimuth.")
    period: float = option(0.0, "Time from scan to scan, if they have no stamps; 0: 0.1 s.", unit="seconds", least=0.0)
    min_range: float = _min_range()
    max_range: float = _max_range(120.0)
    radius: float = option(120.0, "Keep the map within this distance of the sensor.", unit="meters", above=0.0)
    cell: float = option(
        0.0, "Cell size of the map; 0: half a voxel, but at least 0.3 m or a voxel, whichever is less.", unit="meters", least=0.0
    )
    patience: int = option(5, "Bridge up to this many consecutive scans with too few returns; their poses are predicted.", least=0)
    on_loss: OnLoss = option("stop", "If a scan cannot be localized: stop, or restart with a new map at the predicted pose.")
    gicp: "GicpConfig" = field(default_factory=_gicp)  # of the alignment

    def __post_init__(self) -> None:
        if isinstance(self.deskew, bool):
            object.__setattr__(self, "deskew", "on" if self.deskew else "off")
        check(self)
        _check_ranges(self.min_range, self.max_range)


def preset_names() -> list[str]:
    """Names of the settings of registration."""
    return ["auto", "objects", "vlp16", "hdl32e", "hdl64e", "os1_64", "os2_128", "indoor"]


@dataclass(frozen=True)
class RegisterConfig:
    """Options of global registration."""

    preset: object | None = option(
        None,
        "objects; for scans of a place, the sensor or indoor; auto: chosen from the clouds; in Python also a ScanPreset.",
        names=preset_names,
    )
    upright: bool = option(True, "Scans: the z axes of both sensors point up, within 45 degrees.", flag="--upright/--tilted")
    feature_radius: float | None = option(
        None, "Smallest feature radius. Scans: meters; objects: units of the file, 0.3 radii.", above=0.0
    )
    noise_bound: float | None = option(
        None, "Maximum distance between matching points. Scans: meters; objects: units of the file, 0.05 radii.", above=0.0
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Frames:
    """Frames of `poli node odometry`, and the rate of its maps."""

    map_frame: str = option("odom", "Name of the world frame: the sensor's frame at the first cloud.")
    sensor_frame: str = option("", "Name of the sensor's frame; default: that of the clouds.")
    tf: bool = option(True, "Publish the transform from the world to the sensor on /tf.")
    map_every: float = option(5.0, "Time between maps, and between paths; 0: never.", unit="seconds", least=0.0)

    def __post_init__(self) -> None:
        check(self)
        if not self.map_frame or self.map_frame == self.sensor_frame:
            raise InputError(f"map_frame is {self.map_frame!r}; expected a name other than that of the sensor's frame")


LEAST_SCANS = 30  # of a calibration


@dataclass(frozen=True)
class CalibrateConfig:
    """Options of the calibration of beams."""

    max_scans: int = option(240, "Most scans to use; of a longer log, stretches spread over it.", least=LEAST_SCANS, flag="--scans")
    voxel: float = _odometry_voxel()
    model: str = network_option()
    deskew: Deskew = _deskew()
    min_range: float = _min_range()
    max_range: float = _max_range(80.0)
    rounds: int = option(2, "Rounds of odometry and adjustment, each with the corrections of the one before.", least=1)

    def __post_init__(self) -> None:
        check(self)
        _check_ranges(self.min_range, self.max_range)


LEAST_PAIRS = 10  # of scans to adapt to


@dataclass(frozen=True)
class AdaptConfig:
    """Options of tuning a model to a sensor."""

    steps: int = option(1500, "Training steps; each takes about 0.1 s of CPU time.", least=1)
    learning_rate: float = 5e-3  # at its peak
    pairs: int = 150  # maximum number of first scans of a pair
    reach: float = 1.0  # meters: training partners are the next scan and later ones this near; held-out pairs are consecutive
    voxels: tuple[float, ...] = (0.2, 2.0)  # meters: the smallest and the largest; sizes are drawn log-uniformly
    points: int = 2560  # maximum per cloud: a sector of the scan
    seed: int = option(0, "Random seed of training.", least=0, most=99)

    def __post_init__(self) -> None:
        check(self)
        if not self.reach >= 0.0 or self.pairs < LEAST_PAIRS:
            raise InputError(f"adapt: reach must be at least 0, pairs at least {LEAST_PAIRS}")
