"""The configuration of a training run: a TOML file with checked types, saved in every checkpoint."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from poli.errors import FormatError, InputError, did_you_mean
from poli.estimation.architecture import LEAST_POINTS, AnyArchitecture, Architecture
from poli.io.tables import parse_json, read_toml
from poli.train.losses import LossConfig
from poli.worlds.places import PLACES
from poli.worlds.sensors import SENSORS

# The stages of a run, in this order: the shapes of the ellipsoids, on dense partners; then their sizes, on partners as dense as the
# clouds; then curvature, on dense partners again. Each stage keeps what the earlier ones learned.
Stage = Literal["shapes", "sizes", "curvature"]
STAGES: tuple[Stage, ...] = get_args(Stage)
MOST_PROCESSES = 64

WORLDS_A_SEED = 10_000  # a run's worlds start at seed * 10,000


# `next`: the paper's, the next scan of a recording. `survey`: a survey of the spot while shapes are trained, if it is simulated;
# otherwise scans nearby.
Partner = Literal["survey", "next"]


@dataclass(frozen=True)
class DatasetConfig:
    """Recorded sequences to train on. In the list `scans.datasets`, a plain name is the path of one sequence."""

    path: str  # relative to `poli train --data`, by default the configuration's folder
    kind: str = "auto"  # of dataset, as in `poli.dataset`: kitti, helipr, mulran, folder, ...
    sequences: tuple[str, ...] = ()  # under the path; empty: the only one there
    sensor: str = ""  # of HeLiPR: velodyne (VLP-16), ouster (OS2-128), aeva or avia
    # With partner = "next":
    voxel: float = 0.0  # meters, of both scans of a pair; 0: all points
    stride: int = 1  # from a scan to its partner

    def __post_init__(self) -> None:
        if not self.path or self.voxel < 0 or self.stride < 1:
            raise InputError("scans.datasets: give a path, a voxel of at least 0 and a stride of at least 1")


@dataclass(frozen=True)
class ScanConfig:
    """Simulated worlds to drive through, and how pairs are made from scans."""

    worlds: int = 80
    stations: int = 4  # spots in each world
    sensors_each: int = 2  # sensors that record a pair at each spot
    places: tuple[str, ...] = ()  # kinds of place; all if empty
    sensors: tuple[str, ...] = (*SENSORS, "any")  # `any`: a random table of beams
    validation_worlds: int = 10
    datasets: tuple[DatasetConfig, ...] = ()  # recorded sequences, of any kind that poli.dataset supports
    partner: Partner = "survey"  # with "next", pairs are as recorded, and settings marked * are not used
    odometry: bool = True  # * `poli train` estimates the poses of datasets by odometry, and deskews; false: their own poses
    recorded: int = 120  # * scans of each dataset that start a pair, at most; a fifth of them is held out
    min_range: float = 0.0  # meters; returns of datasets nearer than this are dropped (the vehicle itself)
    voxels: tuple[float, ...] = (0.2, 2.0)  # * meters: the smallest and the largest; sizes are drawn log-uniformly
    raw_share: float = 0.1  # * fraction of the pairs that are not voxelized
    points: int = 4096  # maximum per cloud: a sector of the scan; 0: the whole scan, with partner = "next"
    clouds: int = 1  # per step
    survey_voxel: float = 0.2  # * meters, of the survey that is the partner while shapes are trained
    rotation_noise: float = 0.1  # * of the measured pose, degrees per axis
    translation_noise: float = 0.02  # * meters per axis
    max_distance: float = 2.0  # meters, or * voxels if that is more: points farther apart do not match
    blind: float = 0.06  # * fraction of the clouds without sensor position; the same fraction without up, and without either

    def __post_init__(self) -> None:
        if self.partner not in get_args(Partner):
            raise InputError(f"scans.partner is {self.partner!r}; expected one of {', '.join(get_args(Partner))}")
        recorded = self.partner == "next"
        if recorded and (self.worlds or self.validation_worlds):
            raise InputError('scans.partner = "next" is for datasets; set scans.worlds = 0 and scans.validation_worlds = 0')
        if not recorded and any(d.voxel or d.stride > 1 for d in self.datasets):
            raise InputError('scans.datasets: voxel and stride need scans.partner = "next"; otherwise set scans.voxels')
        for setting, known in (("places", PLACES), ("sensors", (*SENSORS, "any"))):
            for name in getattr(self, setting):
                if name not in known:
                    raise InputError(f"scans.{setting}: unknown {name!r}; expected some of {', '.join(known)}")
        if not 0 <= self.worlds <= WORLDS_A_SEED or self.worlds + len(self.datasets) < 1:
            raise InputError("scans: nothing to train on; set scans.worlds or scans.datasets")
        if min(self.stations, self.sensors_each, self.clouds) < 1 or not self.sensors:
            raise InputError("scans: stations, sensors_each and clouds must be at least 1; name a sensor")
        if self.points < 64 and not (recorded and self.points == 0):
            raise InputError(f'scans.points is {self.points}; expected at least 64, or with partner = "next" 0 for the whole scan')
        if self.recorded < 10 or not self.min_range >= 0:
            raise InputError("scans: recorded must be at least 10, min_range not negative")
        if not self.voxels or not all(v > 0 for v in self.voxels) or min(self.survey_voxel, self.max_distance) <= 0:
            raise InputError("scans: voxels, survey_voxel and max_distance must be positive")
        if min(self.rotation_noise, self.translation_noise) < 0 or not (0 <= self.raw_share <= 1 and 0 <= self.blind <= 0.3):
            raise InputError("scans: noise must be at least 0, raw_share between 0 and 1, blind between 0 and 0.3")


_LARGEST, _LARGEST_WHOLE = 1e300, 1 << 63
SHAPES_A_SEED = 10_000  # a run's shapes start at seed * 10,000
_TRAINED_ON = ("scans", "data", "pairs")  # tables of a configuration file, one of which is required


@dataclass(frozen=True)
class DataConfig:
    """Surfaces to draw pairs from: our own random shapes, mesh files, or both."""

    procedural: int = 400  # shapes
    resolution: int = 96  # of their polygonization
    meshes: tuple[str, ...] = ()  # .ply or .obj files; relative names are relative to the configuration's folder
    mesh_share: float = 0.5  # fraction of the clouds drawn from meshes, if there are both
    validation_procedural: int = 12  # shapes that are not trained on
    validation_meshes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.procedural <= SHAPES_A_SEED:
            raise InputError(f"data.procedural is {self.procedural}; expected 0 to {SHAPES_A_SEED}")
        if self.validation_procedural < 0 or self.procedural + len(self.meshes) < 1:
            raise InputError("data: nothing to train on; set data.meshes or data.procedural")
        if not 0.0 <= self.mesh_share <= 1.0 or self.resolution < 16:
            raise InputError("data: mesh_share must be between 0 and 1, resolution at least 16")


_MOST_ZOOM = 100.0  # surfaces are sampled as densely, which takes time


@dataclass(frozen=True)
class PairConfig:
    """How pairs of clouds are drawn from objects."""

    points: tuple[int, ...] = (500, 1000)  # the N of a step is drawn from these
    clouds: int = 1  # Q per step at the largest N; more at smaller N, so that every step has about the same number of points
    partners: int = 1  # P per Q
    # Points of P over points of Q while shapes are trained. A dense partner, like several merged scans, is closer to the surface
    # and defines it better; sizes are trained afterwards, on partners as dense as Q.
    partner_density: float = 1.0
    max_rotation: float = 60.0  # degrees, between P and Q
    max_turn: float = 0.0  # degrees, of the object in the frame of Q: how the network sees it
    translation_noise: float = 0.0  # standard deviation of the measured pose per axis, in radii of the object
    rotation_noise: float = 0.0  # degrees per axis
    # Largest standard deviation of the noise of clouds while curvature is trained, in radii of the object; a third of the clouds
    # have none. Quadrics depend on the noise more than directions do.
    noise: float = 0.0
    # While curvature is trained, three in five clouds show a part of the surface, up to this many times as dense: at any noise,
    # some surfaces are smooth and some are rough.
    zoom: float = 1.0
    max_distance: float | None = None  # matches farther apart than this under the measured pose are ignored
    # The paper's training set: so many pairs of each mesh and N, the same in every epoch, one per step. 0: new ones at every step.
    samples: int = 0

    def __post_init__(self) -> None:
        if not self.points or min(self.points) < LEAST_POINTS:
            raise InputError(f"pairs.points is {self.points}; expected a list of numbers of at least {LEAST_POINTS}")
        if self.clouds < 1 or self.partners < 1:
            raise InputError("pairs.clouds and pairs.partners must be at least 1")
        if self.samples < 0 or (self.samples and self.clouds > 1):
            raise InputError("pairs.samples must be at least 0, and needs clouds = 1: one N per step")
        if not (self.partner_density >= 1.0 and 1.0 <= self.zoom <= _MOST_ZOOM):
            raise InputError(
                f"pairs: partner_density is {self.partner_density} and zoom {self.zoom}; expected at least 1, and zoom at most "
                f"{_MOST_ZOOM:g}"
            )
        if min(self.max_rotation, self.max_turn, self.translation_noise, self.rotation_noise, self.noise) < 0 or (
            self.max_distance is not None and self.max_distance <= 0
        ):
            raise InputError("pairs: rotations and noise must be at least 0, and max_distance above 0")


@dataclass(frozen=True)
class StageConfig:
    """A stage of a run: how long it takes, and how fast it learns."""

    steps: int = 0
    learning_rate: float = 1e-2  # peak value, reached after the warm-up and followed by a cosine decay
    average: float = 0.998  # decay of the moving average of the weights, which the next stage and the model start from; 0: none
    epochs: int = 0  # instead of steps, if the samples are a fixed set: pairs.samples, or scans.partner = "next"

    def __post_init__(self) -> None:
        if min(self.steps, self.epochs) < 0 or not self.learning_rate > 0 or not 0 <= self.average < 1:
            raise InputError("stages: steps and epochs must be at least 0, learning_rate positive, average in [0, 1)")
        if self.steps and self.epochs:
            raise InputError(f"stages: there are {self.steps} steps and {self.epochs} epochs; give one of them")


@dataclass(frozen=True)
class ScheduleConfig:
    """What the stages of a run have in common."""

    processes: int = 1  # that `poli train` starts, with one thread each; every one draws batches of its own
    workers: int = 1  # threads that prepare the next batches; more do not change the result
    warmup: int = 100  # steps, in each stage; 0: none
    final_fraction: float = 0.01  # final learning rate as a fraction of the peak; 1: a constant rate
    weight_decay: float = 0.0  # of AdamW; without it, Adam
    clip: float = 1.0  # maximum norm of the gradient; 0: any
    log_every: int = 20
    validate_every: int = 500
    checkpoint_every: int = 200

    def __post_init__(self) -> None:
        if min(self.log_every, self.validate_every, self.checkpoint_every) < 1 or self.warmup < 0:
            raise InputError("schedule: intervals must be at least 1, warmup at least 0")
        if not 1 <= self.processes <= MOST_PROCESSES:
            raise InputError(f"schedule.processes is {self.processes}; expected 1 to {MOST_PROCESSES}")
        if not 1 <= self.workers <= MOST_PROCESSES:
            raise InputError(f"schedule.workers is {self.workers}; expected 1 to {MOST_PROCESSES}")
        if not (self.clip >= 0 and self.weight_decay >= 0 and 0 < self.final_fraction <= 1):
            raise InputError("schedule: clip and weight_decay must be at least 0, final_fraction in (0, 1]")


@dataclass(frozen=True)
class TrainConfig:
    """All settings of a training run."""

    name: str = "objects"
    seed: int = 0
    initial: str = ""  # start from this model instead of random weights: the name of a shipped one, or a .safetensors file
    data: DataConfig = field(default_factory=DataConfig)
    pairs: PairConfig = field(default_factory=PairConfig)
    scans: ScanConfig | None = None  # if given, the run is on scans, and `data` and `pairs` are not used
    loss: LossConfig = field(default_factory=LossConfig)
    architecture: AnyArchitecture = field(default_factory=Architecture)  # kind = "pointnet2": the paper's network
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    shapes: StageConfig = StageConfig(4000)
    # Partners of shapes may be denser than the clouds (`partner_density`, surveys); those of sizes are as dense.
    sizes: StageConfig = StageConfig(400)
    curvature: StageConfig = StageConfig()  # needs architecture.curvature

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 100:
            raise InputError(f"seed is {self.seed}; expected 0 to 99 (each seed has ten thousand shapes)")
        if (self.curvature.steps or self.curvature.epochs) and not self.architecture.curvature:
            raise InputError(
                "curvature.steps: the architecture has no curvature; set architecture.curvature above 0 (not for pointnet2)"
            )
        if self.in_epochs and not self.fixed_samples:
            raise InputError('epochs need a fixed set of samples: set pairs.samples or scans.partner = "next", or give steps')
        if self.steps < 1 and not self.in_epochs:
            raise InputError("shapes, sizes and curvature: all have 0 steps; nothing to train")

    @property
    def fixed_samples(self) -> bool:
        """Whether every epoch has the same samples."""
        return bool(self.pairs.samples) if self.scans is None else self.scans.partner == "next"

    @property
    def in_epochs(self) -> bool:
        """Whether the length of a stage is given in epochs (`in_steps`)."""
        return any(getattr(self, name).epochs for name in STAGES)

    def in_steps(self, samples: int, processes: int) -> TrainConfig:
        """Return the configuration with epochs of so many samples converted to steps, which the run is resumed with."""
        batch = processes * (1 if self.scans is None else self.scans.clouds)
        stages = {name: getattr(self, name) for name in STAGES}
        lengths = {name: math.ceil(stage.epochs * samples / batch) for name, stage in stages.items() if stage.epochs}
        return replace(self, **{name: replace(stages[name], steps=steps, epochs=0) for name, steps in lengths.items()})

    @property
    def steps(self) -> int:
        """Number of steps of all stages."""
        return self.shapes.steps + self.sizes.steps + self.curvature.steps

    def stage(self, step: int) -> tuple[Stage, StageConfig, int]:
        """Return the stage of a step, its settings, and the number of its steps before this one."""
        for name in STAGES:
            settings: StageConfig = getattr(self, name)
            if step < settings.steps:
                return name, settings, step
            step -= settings.steps
        raise InputError(f"step {step}: the run has {self.steps}")

    def to_json(self) -> str:
        """Return the configuration as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> TrainConfig:
        """Parse the output of `to_json`."""
        return build(TrainConfig, parse_json(text, "the configuration"), "")


def read_config(path: str | Path) -> TrainConfig:
    """Read a TOML file with the tables and names of `TrainConfig`. Settings not in the file keep their defaults.

    The file must name what to train on, or an empty file would start the training of the model `objects`, which takes hours.
    """
    path = Path(path)
    values = read_toml(path)
    try:
        config = build(TrainConfig, values, "")
    except InputError as error:
        raise FormatError(f"{path}: {error}") from None
    if not any(table in values for table in _TRAINED_ON):
        what = "the file is empty" if not values else f"it has only {', '.join(sorted(values))}"
        raise FormatError(f"{path}: nothing to train on: {what}; add a table [scans], [data] or [pairs] (see configs/)")
    return config


def resolve(name: str, beside: Path) -> str:
    """Return the path of a file named in a configuration, relative to `beside`; names of shipped models are returned unchanged."""
    return str(beside / name) if Path(name).suffix else name


def build(kind: type, values: Any, where: str) -> Any:
    """Build a dataclass from nested dictionaries, checking every name and type."""
    if not isinstance(values, dict):
        raise InputError(f"{where or 'the configuration'}: expected a table")
    known = {f.name for f in fields(kind)}
    for name in values:
        if name not in known:
            what = "table" if isinstance(values[name], dict) else "setting"
            raise InputError(f"unknown {what} {where}{name}; expected one of {', '.join(sorted(known))}{did_you_mean(name, known)}")
    hints = get_type_hints(kind)
    return kind(**{name: _typed(hints[name], value, f"{where}{name}") for name, value in values.items()})


def _typed(hint: Any, value: Any, name: str) -> Any:
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        hints = [h for h in get_args(hint) if h is not type(None)]
        kind = value.get("kind") if isinstance(value, dict) else None
        hint = next((h for h in hints if kind and getattr(h, "kind", None) == kind), hints[0])
    if hint is DatasetConfig and isinstance(value, str):
        value = {"path": value}
    if is_dataclass(hint):
        return build(hint, value, f"{name}.")  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} is {_shown(value)}; expected a list")
        return tuple(_typed(get_args(hint)[0], v, name) for v in value)
    plain = hint if isinstance(hint, type) else str  # the value of a Literal is checked by the class that has it
    right = isinstance(value, int | float) and not isinstance(value, bool) if plain is float else isinstance(value, plain)
    if not right or (plain is int and isinstance(value, bool)):
        raise InputError(f"{name} is {_shown(value)}; expected {plain.__name__}")
    if plain is float and not abs(value) < _LARGEST:  # also rejects NaN; before conversion, which overflows for huge integers
        raise InputError(f"{name} is {_shown(value)}; expected a finite number")
    if plain is int and abs(value) >= _LARGEST_WHOLE:
        raise InputError(f"{name} is {_shown(value)}; expected a number below 2^63")
    return plain(value)


def _shown(value: Any) -> str:
    """Return a value for an error message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # integers with too many digits
        text = "a very large number"
    return text if len(text) <= 80 else f"{text[:77]}..."
