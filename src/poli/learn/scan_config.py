"""The training data of a LiDAR run: simulated worlds, recorded datasets, or both."""

from __future__ import annotations

from dataclasses import dataclass

from poli.data.simulate.faults import KINDS
from poli.data.simulate.places import PLACES
from poli.data.simulate.sensor import SENSORS
from poli.errors import InputError

WORLDS_A_SEED = 10_000  # a run's worlds start at seed * 10,000


@dataclass(frozen=True)
class ScanConfig:
    """Simulated worlds to drive through, and how pairs are made from scans."""

    worlds: int = 80
    stations: int = 4  # spots in each world
    sensors_each: int = 2  # sensors that record a pair at each spot
    places: tuple[str, ...] = ()  # kinds of place; all if empty
    sensors: tuple[str, ...] = (*SENSORS, "any")  # `any`: a random table of beams
    validation_worlds: int = 10
    without_faults: tuple[str, ...] = ()  # faults of real sensors that simulated ones are spared (`simulate.faults.KINDS`)
    datasets: tuple[str, ...] = ()  # recorded sequences, of any kind that poli.dataset supports
    odometry: bool = True  # `poli train` estimates the poses of datasets by odometry, and deskews; false: their own poses
    recorded: int = 120  # scans of each dataset that start a pair, at most; a fifth of them is held out
    min_range: float = 0.0  # meters; returns of datasets nearer than this are dropped (the vehicle itself)
    survey_reach: float = 8.0  # meters driven before and after a recorded scan: the scans that are merged into its survey
    survey_scans: int = 20  # at most
    voxels: tuple[float, ...] = (0.2, 2.0)  # meters: the smallest and the largest; sizes are drawn log-uniformly
    raw_share: float = 0.1  # fraction of the pairs that are not voxelized
    points: int = 4096  # maximum per cloud: a sector of the scan
    clouds: int = 1  # per step
    survey_voxel: float = 0.2  # meters, of the survey that is the partner while shapes are trained
    rotation_noise: float = 0.1  # of the measured pose, degrees per axis
    translation_noise: float = 0.02  # meters per axis
    max_distance: float = 2.0  # meters, or voxels if that is more: points farther apart do not match
    blind: float = 0.06  # fraction of the clouds without sensor position; the same fraction without up, and without either

    def __post_init__(self) -> None:
        for kind in self.places:
            if kind not in PLACES:
                raise InputError(f"scans.places: unknown {kind!r}; expected some of {', '.join(PLACES)}")
        for name in self.sensors:
            if name not in SENSORS and name != "any":
                raise InputError(f"scans.sensors: unknown {name!r}; expected some of {', '.join(SENSORS)} and any")
        for name in self.without_faults:
            if name not in KINDS:
                raise InputError(f"scans.without_faults: unknown {name!r}; expected some of {', '.join(KINDS)}")
        if not 0 <= self.worlds <= WORLDS_A_SEED or self.worlds + len(self.datasets) < 1:
            raise InputError("scans: nothing to train on; set scans.worlds or scans.datasets")
        if min(self.stations, self.sensors_each, self.clouds) < 1 or self.points < 64 or not self.sensors:
            raise InputError("scans: stations, sensors_each and clouds must be at least 1, points at least 64; name a sensor")
        if self.recorded < 10 or self.survey_scans < 4 or not self.survey_reach > 0 or not self.min_range >= 0:
            raise InputError(
                "scans: recorded must be at least 10, survey_scans at least 4, survey_reach positive, min_range not negative"
            )
        if not self.voxels or not all(v > 0 for v in self.voxels) or min(self.survey_voxel, self.max_distance) <= 0:
            raise InputError("scans: voxels, survey_voxel and max_distance must be positive")
        if min(self.rotation_noise, self.translation_noise) < 0 or not (0 <= self.raw_share <= 1 and 0 <= self.blind <= 0.3):
            raise InputError("scans: noise must be at least 0, raw_share between 0 and 1, blind between 0 and 0.3")
