"""Train TULIP, the learned rival that makes scans denser, with simulated scans of all rows of the worlds our model learns from.

Example: python -m benchmarks tulip
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from benchmarks.options import option
from benchmarks.report import Report, Table, column_list, command_line
from benchmarks.rivals.range_interpolation import interpolate
from benchmarks.rivals.tulip import (
    COLUMNS,
    FACTOR,
    LEAST_SPREAD,
    RINGS,
    WEIGHTS,
    Upsampling,
    points_of_image,
    range_image,
    upsample_by,
)
from poli.kdtree.tree import KDTree
from poli.train.model_file import write_tensors
from poli.worlds import Sensor, Trajectory, World, simulate_scan
from poli.worlds.places import make_place
from poli.worlds.scan_pairs import HELD_OUT_SEEDS
from poli.worlds.trajectory import usual_ride

_ROWS = FACTOR * (RINGS - 1) + 1
# Elevations in degrees of the lowest and the highest row, as of the real sensors: KITTI's HDL-64E, an OS1, a VLP-16.
_VIEWS = {"hdl64e": (-24.8, 0.72), "os1_64": (-16.6, 15.0), "vlp16": (-15.0, 15.0)}
_BATCH, _CROP = 4, 256  # windows per step, and their columns
_CLIP, _WARMUP, _AVERAGE = 1.0, 100, 0.995  # norm of a gradient; steps; of the weights over steps
_EVERY = 500  # steps between two checkpoints
_RETURNS = 0.3  # weight of the term of missing returns
_HELD_OUT = ("town", "campus", "riverside")
_REACH = 0.2  # meters: a point of a new row is covered by a point this near


@dataclass(frozen=True)
class Options:
    places: tuple[str, ...] = option(
        ("town", "campus", "apartments", "roundabout", "riverside", "bridge", "parking"),
        "places to learn from, separated by commas",
    )
    worlds: int = option(2, "worlds per place", least=1)
    scans: int = option(4, "scans per world and sensor", least=1)
    steps: int = option(3000, "training steps", least=1)
    learning_rate: float = option(2e-3, "learning rate of Adam")
    weights: Path = option(WEIGHTS, "file for the trained weights, written every 500 steps")
    seed: int = option(0, "random seed", least=0)


@dataclass(frozen=True, eq=False)
class Full:
    """A scan with all rows."""

    name: str
    points: np.ndarray  # (N, 3), float32
    elevations: np.ndarray  # (61,) degrees

    @property
    def image(self) -> np.ndarray:  # (61, 1024)
        return range_image(self.points, self.elevations)

    @property
    def rings(self) -> np.ndarray:  # (16,) degrees: what is left of the rows
        return self.elevations[::FACTOR]

    @property
    def thinned(self) -> np.ndarray:  # (M, 3)
        return points_of_image(self.image[::FACTOR], self.rings).astype(np.float32)


_TABLE = Table(column_list(scans="{scans}"), across="way", cell="{median:cm} / {mean:cm} / {covered:share}")


def run(options: Options) -> Iterator[Report]:
    training = [full for kind in options.places for seed in range(options.worlds) for full in scans_of(kind, seed, options.scans)]
    held_out = [full for kind in _HELD_OUT for full in scans_of(kind, HELD_OUT_SEEDS, 2)]
    course: dict[int, float] = {}

    def check(step: int, network: Upsampling) -> None:
        write_tensors(options.weights, network.state_dict(), {"command": command_line(), "steps": str(step)})
        course[step] = float(np.mean([judged(upsample_by(network, full.thinned, full.rings), full)["mean"] for full in held_out]))
        print(f"step {step}: mean error {100 * course[step]:.1f} cm on held-out scans", flush=True)

    network = train(training, options, check)
    records: list[dict[str, Any]] = []
    for full in held_out:
        ways = {"interpolation": interpolate(full.thinned, full.rings), "TULIP": upsample_by(network, full.thinned, full.rings)}
        records += [{"scans": full.name, "way": way, **judged(points, full)} for way, points in ways.items()]
    shown = [
        {"scans": name, "way": way, **{key: float(np.mean([r[key] for r in group])) for key in ("median", "mean", "covered")}}
        for name, way, group in _groups(records)
    ]
    notes = [
        "median / mean distance of new points to the nearest point of the whole scan in cm, and share of the points of the rows "
        f"left out with a new point within {100 * _REACH:.0f} cm; on worlds never trained on",
        f"{options.steps} steps of {_BATCH} windows of {len(training)} scans; supervised: the labels are the rows left out",
    ]
    yield Report("tulip", "TULIP on held-out worlds", records, _TABLE, notes, shown=shown)


def _groups(records: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    for name, way in dict.fromkeys((r["scans"], r["way"]) for r in records):
        yield name, way, [r for r in records if (r["scans"], r["way"]) == (name, way)]


def scans_of(kind: str, seed: int, count: int) -> Iterator[Full]:
    """Scans of each sensor along the route of a world."""
    world = World(make_place(kind, seed))
    trajectory = Trajectory(world.place.route, usual_ride(kind))
    rng = np.random.default_rng([seed, 3])
    for name, (lowest, highest) in _VIEWS.items():
        elevations = np.linspace(lowest, highest, _ROWS)
        sensor = Sensor(tuple(elevations.tolist()), COLUMNS, max_range=120.0, noise=0.02)
        for pose in trajectory.poses(rng.uniform(0.02, 0.98, count) * trajectory.duration):
            scan = simulate_scan(world, sensor, pose, int(rng.integers(2**31)))
            yield Full(f"{kind}, {name}", scan.points, elevations)


def judged(dense: np.ndarray, full: Full) -> dict[str, float]:
    """Errors of the new points in meters, and how many of the points left out they cover."""
    new = dense[len(full.thinned) :]
    if not len(new):
        return {"median": np.nan, "mean": np.nan, "covered": 0.0}
    errors = KDTree(full.points).nearest(1, new)[0][:, 0]
    image = full.image.copy()
    image[::FACTOR] = 0.0
    distances = KDTree(new).nearest(1, points_of_image(image, full.elevations))[0][:, 0]
    return {"median": float(np.median(errors)), "mean": float(errors.mean()), "covered": float(np.mean(distances <= _REACH))}


def train(scans: list[Full], options: Options, check: Callable[[int, Upsampling], None]) -> Upsampling:
    """Train the network on windows of range images. `check` receives it every 500 steps and at the end."""
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    images = [(full.image, full.elevations) for full in scans]
    network = Upsampling()
    optimizer = torch.optim.Adam(network.parameters(), options.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / _WARMUP))
    mean = torch.optim.swa_utils.AveragedModel(network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(_AVERAGE))
    for step in track(range(1, options.steps + 1), "training TULIP"):
        windows = [_window(*images[int(rng.integers(len(images)))], rng) for _ in range(_BATCH)]
        image, elevations = (torch.from_numpy(np.stack(arrays).astype(np.float32)) for arrays in zip(*windows, strict=True))
        optimizer.zero_grad()
        loss(network, image, elevations).backward()
        if torch.isfinite(torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)):
            optimizer.step()
            mean.update_parameters(network)
        schedule.step()
        if step % _EVERY == 0 or step == options.steps:
            check(step, cast(Upsampling, mean.module))
    return cast(Upsampling, mean.module).eval().requires_grad_(False)


def _window(image: np.ndarray, elevations: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Columns of an image, beginning anywhere and in either direction; as if the sensor were tilted a little."""
    turned = np.roll(image, int(rng.integers(image.shape[1])), axis=1)[:, :_CROP]
    return turned[:, :: int(rng.choice([-1, 1]))], elevations + rng.normal(0.0, 0.5)


def loss(network: Upsampling, image: Tensor, elevations: Tensor) -> Tensor:  # (B, 61, W), (B, 61)
    """The negative log-likelihood of the rows left out: a Laplace distribution of the logarithm of the range where there is a
    return, which is the paper's absolute difference with a spread, and whether there is one."""
    logs, logits, spreads = network(image[:, ::FACTOR], elevations[:, ::FACTOR])
    truth = image[:, :-1].unflatten(1, (RINGS - 1, FACTOR))[:, :, 1:]
    seen = truth > 0.0
    spread = spreads.exp() + LEAST_SPREAD
    laplace = (logs - torch.where(seen, truth, 1.0).log()).abs() / spread + spread.log()
    returns = torch.nn.functional.binary_cross_entropy_with_logits(logits, seen.to(logits.dtype))
    return laplace[seen].mean() + _RETURNS * returns
