"""A training run of seconds, networks with random weights, and a cloud for them."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from poli.estimation.architecture import Architecture
from poli.worlds import Ride, World, find_sensor
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

torch = pytest.importorskip("torch")
from poli.train.config import TrainConfig  # noqa: E402
from poli.train.model_file import export_model  # noqa: E402
from poli.train.network import Network  # noqa: E402
from poli.train.tracked_log import TrackedLog  # noqa: E402

COUNT = 14  # scans of the drive

TINY = """
name = "tiny"
seed = 3
[data]
procedural = 2
resolution = 24
validation_procedural = 1
[pairs]
points = [64, 128]
clouds = 2
partners = 2
translation_noise = 0.01
[loss]
kind = "ttqc"
[architecture]
neighbors = [8, 8]
edge = [8, 8]
scalars = [8, 8]
head = 8
reach = 12
[schedule]
warmup = 2
log_every = 1
validate_every = 6
checkpoint_every = 2
[shapes]
steps = SHAPES
[sizes]
steps = SIZES
"""


SCANNED = """
[architecture]
neighbors = [8, 6]
edge = [8, 8]
scalars = [8, 8]
reach = 8
wide = [6]
log_scale = true
sensor = true
size = 8
"""  # the network of a training on scans


@cache
def town_drive() -> Drive:
    """A short drive with a coarse sensor."""
    sensor = replace(find_sensor("vlp16"), steps=300)
    return Drive(World(make_place("town", 3)), sensor, Ride(speed=6.0), COUNT, 0)


@cache
def town_log() -> TrackedLog:
    """The same as a log whose poses are known well."""
    drive, covariances = town_drive(), np.tile(np.diag([1e-7] * 3 + [1e-5] * 3), (COUNT, 1, 1))
    return TrackedLog("a town", [scan.keep() for scan in drive], drive.poses, covariances, np.ones(COUNT, bool))


def tiny(folder: Path, steps: int) -> Path:
    """Write the configuration of a run of this many steps, a tenth of them for sizes."""
    path = folder / f"tiny{steps}.toml"
    path.write_text(TINY.replace("SHAPES", str(steps - steps // 10)).replace("SIZES", str(steps // 10)))
    return path


ARCHITECTURES = [
    Architecture(),
    Architecture(neighbors=(8, 8, 6), edge=(8, 12, 16), scalars=(12, 16, 20), log_scale=True, rounds=3),
    Architecture(
        neighbors=(8, 8, 6), edge=(8, 12, 16), scalars=(12, 16, 20), reach=8, wide=(6, 4), log_scale=True,
        sensor=True, size=10,
    ),
]  # fmt: skip


def cloud(seed: int, count: int = 150) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True) * (1.0 + 0.3 * np.sin(4.0 * points[:, :1]))


def network(architecture: Architecture, seed: int = 0) -> Network:
    torch.manual_seed(seed)
    made = Network(architecture)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return made


def exported(tmp_path: Path, architecture: Architecture, calibration: float = 1.25) -> Path:
    path = tmp_path / "model.safetensors"
    export_model(path, network(architecture), TrainConfig(architecture=architecture), 7, calibration)
    return path
