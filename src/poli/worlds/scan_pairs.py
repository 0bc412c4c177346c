"""Training pairs: two sweeps of one sensor, their relative pose and, if simulated, a survey scan of the same spot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from poli.io.atomic import atomic_path
from poli.io.limits import read_npz_arrays
from poli.scan import Scan
from poli.se3 import inverse
from poli.voxels import voxel_downsample
from poli.worlds.faults import apply_faults, draw_faults
from poli.worlds.places import make_place
from poli.worlds.sensors import SENSORS, Sensor
from poli.worlds.sweep import World, simulate_scan, sweep
from poli.worlds.trajectory import Ride, Trajectory

# Seeds of simulated places: training uses those below VALIDATION_SEEDS, validation those below HELD_OUT_SEEDS, benchmarks the rest.
VALIDATION_SEEDS = 1_000_000
HELD_OUT_SEEDS = 2_000_000

# A surveying scanner on a tripod: dense, noise-free, static objects only. Its points are exact samples of the surface. Outdoors it
# covers what cars see; indoors, floor and ceiling as well, and finer, because surfaces are near.
_EXACT = {"max_range": 200.0, "noise": 0.0, "min_range": 0.15, "divergence": 0.0, "dropout": 0.0}
_SURVEY = Sensor(tuple(float(e) for e in np.linspace(-32.0, 22.0, 200)), 1800, **_EXACT)
_INDOOR_SURVEY = Sensor(tuple(float(e) for e in np.linspace(-80.0, 80.0, 280)), 1200, **_EXACT)
_SURVEY_VOXEL, _INDOOR_SURVEY_VOXEL = 0.08, 0.04  # meters; one survey point per voxel
_FEWEST = 500  # returns: with fewer, a sensor that looks into the open has nothing to learn from
INDOORS = ("corridor", "hall", "rooms", "basement")
_OUTDOOR_ONLY, _INDOOR_ONLY = ("os2_128", "at128", "hdl64e"), ("depth_camera",)


@dataclass(frozen=True)
class ScanPair:
    """Two scans, each in its sensor frame. T_q_p maps P into the frame of Q; T_q_survey does so for the survey."""

    q: Scan
    p: Scan
    T_q_p: np.ndarray  # (4, 4)
    survey: np.ndarray | None = None  # (S, 3)
    T_q_survey: np.ndarray | None = None  # (4, 4)
    # (6, 6), of xi = (rotation, translation) in T_q_p Exp(xi), if T_q_p was measured; None if T_q_p is exact
    covariance: np.ndarray | None = None


def simulated_pairs(kind: str, seed: int, stations: int, sensors: Sequence[str], each: int = 2) -> Iterator[ScanPair]:
    """Yield pairs simulated at `stations` spots along the route of a place, with `each` of the sensors per spot, chosen at random.

    The sensor name "any" stands for a random spinning sensor. Vehicles and hands carry the sensor, at all speeds from a standstill.
    Both scans of a pair have the faults of one real sensor, measured or in between (`worlds.faults`). A spot with too few returns
    for a sensor is left out.
    """
    rng = np.random.default_rng([seed, 2])
    world = World(make_place(kind, seed))
    indoors = kind in INDOORS
    fitting = [name for name in sensors if name not in (_OUTDOOR_ONLY if indoors else _INDOOR_ONLY)] or list(sensors)
    length = float(np.linalg.norm(np.diff(world.place.route, axis=0), axis=1).sum())
    for spot in range(stations):
        start = length * (spot + rng.uniform(0.1, 0.6)) / (stations + 0.5)
        handheld = rng.random() < (0.8 if indoors else 0.25)
        ride = _ride(rng, handheld, min(start, length - min(20.0, 0.4 * length)))
        trajectory = Trajectory(world.place.route, ride, int(rng.integers(2**31)))
        # The survey is taken from the sensor's position, so both see the same surfaces. A point seen by only one of them has no
        # partner, and a wrong partner is off along the ray, the direction in which surfaces are thin.
        near = indoors or handheld
        survey = simulate_scan(world, _INDOOR_SURVEY if near else _SURVEY, trajectory.poses(np.zeros(1))[0])
        survey_points = voxel_downsample(survey.points, _INDOOR_SURVEY_VOXEL if indoors else _SURVEY_VOXEL, "first").points
        for name in rng.choice(np.array(fitting), min(each, len(fitting)), replace=False):
            # Without range noise and dropouts, which are among the faults that are added afterwards.
            sensor = replace(random_sensor(rng) if name == "any" else SENSORS[str(name)], noise=0.0, dropout=0.0)
            # Consecutive scans, or keyframes up to two meters apart.
            step, apart = 1.0 / sensor.rate, rng.uniform(0.2, 1.0 if handheld else 2.0) / ride.speed
            apart = step if rng.random() < 0.7 else min(max(step, apart), 0.9 * trajectory.duration)
            # Firing is locked to the angle in some sensors, and free in others.
            phases = rng.random(2) if rng.random() < 0.7 else np.zeros(2)
            T_world_q, T_world_p = trajectory.poses(np.array([0.0, apart]))
            faults, seeds = draw_faults(rng), rng.integers(2**31, size=2)
            q, p = (
                apply_faults(
                    sweep(world, sensor, trajectory.poses, t, int(s), phase=float(f)), faults, np.random.default_rng(int(s))
                )
                for t, s, f in zip((0.0, apart), seeds, phases.tolist(), strict=True)
            )
            if min(len(q), len(p)) >= _FEWEST:
                yield ScanPair(q, p, inverse(T_world_q) @ T_world_p, survey_points, np.eye(4))


def _ride(rng: np.random.Generator, handheld: bool, start: float) -> Ride:
    """Draw how the sensor is carried: by hand, or on a vehicle; some stand still, and some crawl."""
    pace = rng.random()
    if handheld:
        still = pace < 0.15
        return Ride(
            speed=0.01 if still else rng.uniform(0.1, 1.6),
            height=rng.uniform(0.6, 1.9),
            sway=rng.uniform(0.02, 0.3) if still else rng.uniform(0.5, 8.0),
            heave=0.002 if still else rng.uniform(0.005, 0.03),
            mount=(float(rng.normal(0.0, 5.0)), float(rng.normal(0.0, 5.0))),
            start=start,
            turning=0.0 if still else rng.uniform(0.0, 40.0),
            smoothing=0.5,
        )
    still = pace < 0.12
    return Ride(
        speed=0.01 if still else rng.uniform(0.2, 2.0) if pace < 0.25 else rng.uniform(2.0, 17.0),
        height=rng.uniform(0.6, 2.2),
        sway=rng.uniform(0.0, 0.05) if still else rng.uniform(0.1, 1.5),
        heave=0.001 if still else 0.02,
        mount=(float(rng.normal(0.0, 1.5)), float(rng.normal(0.0, 1.5))),
        start=start,
    )


def save_pairs(path: Path, pairs: Sequence[ScanPair], about: str) -> None:
    """Save pairs to a .npz file, with a line `about` that identifies their source."""
    arrays: dict[str, np.ndarray] = {"about": np.array(about)}
    surveys: list[np.ndarray] = []  # the sensors at one spot share a survey
    for number, pair in enumerate(pairs):
        for name, scan in (("q", pair.q), ("p", pair.p)):
            arrays[f"{number}.{name}"] = scan.points
            arrays |= {f"{number}.{name}.{field}": values for field, values in scan.fields.items()}
        arrays[f"{number}.T_q_p"] = pair.T_q_p
        if pair.survey is not None and pair.T_q_survey is not None:
            which = next((i for i, survey in enumerate(surveys) if survey is pair.survey), len(surveys))
            if which == len(surveys):
                surveys.append(pair.survey)
                arrays[f"survey{which}"] = pair.survey
            arrays[f"{number}.survey"], arrays[f"{number}.T_q_survey"] = np.array(which), pair.T_q_survey
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load_pairs(path: Path, about: str) -> list[ScanPair] | None:
    """Load the pairs written by `save_pairs`; None if the file is missing or its `about` differs."""
    if not path.is_file():
        return None
    arrays = read_npz_arrays(path)
    if str(arrays.get("about")) != about:
        return None
    pairs = []
    for number in range(sum(name.endswith(".T_q_p") for name in arrays)):
        scans = []
        for name in ("q", "p"):
            start = f"{number}.{name}."
            fields = {key.removeprefix(start): values for key, values in arrays.items() if key.startswith(start)}
            scans.append(Scan(arrays[f"{number}.{name}"], fields))
        which = arrays.get(f"{number}.survey")
        survey = None if which is None else arrays[f"survey{int(which)}"]
        pairs.append(ScanPair(scans[0], scans[1], arrays[f"{number}.T_q_p"], survey, arrays.get(f"{number}.T_q_survey")))
    return pairs


def random_sensor(rng: np.random.Generator) -> Sensor:
    """Return a random sensor within the range of real products, so that the network does not memorize any of them."""
    beams = int(rng.choice([8, 16, 24, 32, 40, 64, 80, 128]))
    low, high = rng.uniform(-32.0, -9.0), rng.uniform(2.0, 20.0)
    even = np.linspace(low, high, beams)
    return Sensor(
        tuple(float(e) for e in np.sort(even + rng.uniform(0.0, 0.2) * (high - low) / beams * rng.standard_normal(beams))),
        int(rng.choice([600, 900, 1024, 1800, 2048])),
        max_range=rng.uniform(60.0, 200.0),
        noise=0.02,
        divergence=rng.uniform(0.001, 0.006),
        rate=float(rng.choice([10.0, 20.0])),
    )
