"""The configuration of a training run: a TOML file, typed, and saved in every checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from poli.errors import FormatError, InputError
from poli.estimation.architecture import Architecture
from poli.files.tables import parse_json, read_toml
from poli.learn.losses import LossConfig
from poli.learn.pairs import PairConfig
from poli.learn.scan_config import ScanConfig

_LARGEST, _LARGEST_WHOLE = 1e300, 1 << 63
SHAPES_A_SEED = 10_000  # a run's shapes are those from seed * 10,000 on
# Settings of checkpoints and models written before 0.1, by their names since.
_RENAMED = {"gate": "max_distance", "neighbours": "neighbors"}


@dataclass(frozen=True)
class DataConfig:
    """Surfaces to draw pairs from: our own random shapes, mesh files, or both."""

    procedural: int = 400  # shapes
    resolution: int = 96  # of their polygonization
    meshes: tuple[str, ...] = ()  # .ply or .obj files; relative names count from the configuration's folder
    mesh_share: float = 0.5  # of the clouds, when there are both
    validation_procedural: int = 12  # other shapes
    validation_meshes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.procedural <= SHAPES_A_SEED:
            raise InputError(f"data.procedural is {self.procedural}; expected 0 to {SHAPES_A_SEED}")
        if self.validation_procedural < 0 or self.procedural + len(self.meshes) < 1:
            raise InputError("data: name meshes or ask for procedural shapes; there is nothing to train on")
        if not 0.0 <= self.mesh_share <= 1.0 or self.resolution < 16:
            raise InputError("data: mesh_share must be between 0 and 1, resolution at least 16")


@dataclass(frozen=True)
class ScheduleConfig:
    steps: int = 4000
    learning_rate: float = 1e-2  # at its peak; it rises during the warm-up and falls as a cosine
    warmup: int = 100
    settle: float = 0.1  # of the steps, the last: only sizes learn, from partners as dense as the clouds
    final_fraction: float = 0.01  # of the learning rate, at the end
    weight_decay: float = 0.0
    clip: float = 1.0  # the gradient's norm
    average: float = 0.998  # decay of the moving average of the weights, which is what is shipped
    log_every: int = 20
    validate_every: int = 500
    checkpoint_every: int = 200

    @property
    def shaping_steps(self) -> int:
        """Steps before the sizes settle."""
        return self.steps - round(self.settle * self.steps)

    def __post_init__(self) -> None:
        if min(self.steps, self.log_every, self.validate_every, self.checkpoint_every) < 1 or self.warmup < 0:
            raise InputError("schedule: steps and intervals must be at least 1, warmup at least 0")
        if not (self.learning_rate > 0 and self.clip > 0 and self.weight_decay >= 0):
            raise InputError("schedule: learning_rate and clip must be positive, weight_decay at least 0")
        if not (0 <= self.average < 1 and 0 < self.final_fraction <= 1 and 0 <= self.settle <= 1):
            raise InputError("schedule: average must be in [0, 1), final_fraction in (0, 1], settle in [0, 1]")


@dataclass(frozen=True)
class TrainConfig:
    name: str = "objects"
    seed: int = 0
    initial: str = ""  # start from this model instead of random weights: a shipped one by name, or a .safetensors file
    data: DataConfig = field(default_factory=DataConfig)
    pairs: PairConfig = field(default_factory=PairConfig)
    scans: ScanConfig | None = None  # if given, the run is on scans, and `data` and `pairs` are not used
    loss: LossConfig = field(default_factory=LossConfig)
    architecture: Architecture = field(default_factory=Architecture)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 100:
            raise InputError(f"seed is {self.seed}; expected 0 to 99 (each has ten thousand shapes of its own)")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> TrainConfig:
        """What `to_json` wrote, under the names of any version."""
        return build(TrainConfig, _renamed(parse_json(text, "the configuration")), "")


def _renamed(values: Any) -> Any:
    if not isinstance(values, dict):
        return "neighbors" if values == "neighbours" else values  # the kind of frames
    return {_RENAMED.get(name, name): _renamed(value) for name, value in values.items()}


def read_config(path: str | Path) -> TrainConfig:
    """A TOML file with the tables and names of `TrainConfig`; what it leaves out keeps its default."""
    path = Path(path)
    values = read_toml(path)
    try:
        return build(TrainConfig, values, "")
    except InputError as error:
        raise FormatError(f"{path}: {error}") from None


def resolve(name: str, beside: Path) -> str:
    """A file named in a configuration, from the folder that it counts from; other names (of shipped models) as they are."""
    return str(beside / name) if Path(name).suffix else name


def build(kind: type, values: Any, where: str) -> Any:
    """A dataclass from nested dictionaries, with every name and type checked."""
    if not isinstance(values, dict):
        raise InputError(f"{where or 'the configuration'}: expected a table")
    known = {f.name for f in fields(kind)}
    for name in values:
        if name not in known:
            raise InputError(f"unknown setting {where}{name}; known are {', '.join(sorted(known))}")
    hints = get_type_hints(kind)
    return kind(**{name: _typed(hints[name], value, f"{where}{name}") for name, value in values.items()})


def _typed(hint: Any, value: Any, name: str) -> Any:
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        hint = next(h for h in get_args(hint) if h is not type(None))
    if is_dataclass(hint):
        return build(hint, value, f"{name}.")  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} is {_shown(value)}; expected a list")
        return tuple(_typed(get_args(hint)[0], v, name) for v in value)
    plain = hint if isinstance(hint, type) else str  # a Literal: its own class checks which
    right = isinstance(value, int | float) and not isinstance(value, bool) if plain is float else isinstance(value, plain)
    if not right or (plain is int and isinstance(value, bool)):
        raise InputError(f"{name} is {_shown(value)}; expected {plain.__name__}")
    if plain is float and not abs(value) < _LARGEST:  # not NaN either; before a whole number too large for a float is made one
        raise InputError(f"{name} is {_shown(value)}; expected a finite number")
    if plain is int and abs(value) >= _LARGEST_WHOLE:
        raise InputError(f"{name} is {_shown(value)}; expected a number below 2^63")
    return plain(value)


def _shown(value: Any) -> str:
    """For an error message: a few words of it, whatever it is."""
    try:
        text = repr(value)
    except ValueError:  # whole numbers of too many digits
        text = "a very large number"
    return text if len(text) <= 80 else f"{text[:77]}..."
