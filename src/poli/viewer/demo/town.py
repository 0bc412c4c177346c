"""The world of the demo: a town not used for training, and two scans of it that are shipped with the package.

A scan is stored as the sensor sends it: a table with a row per firing and a column per beam, distances in steps of 2 mm
(0: no return) and intensities of one byte. Points follow from the beam directions. The ground truth of the first scan is
stored as well. `python -m poli.viewer.demo.town` regenerates the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from poli.io.atomic import atomic_path
from poli.io.limits import read_npz_arrays
from poli.scan import Scan
from poli.se3 import inverse
from poli.worlds import SPINNING, Ride, Sensor, Trajectory, World, simulate_scan
from poli.worlds.places import make_place

PLACE, SEED = "town", 2_000_003  # seeds from two million on are reserved for evaluation
SENSOR_NAME = "vlp16"
SENSOR = SPINNING[SENSOR_NAME]
SPOTS = 180.0, 190.0  # meters along the route, positions of the two shipped scans
START = 177.0  # meters along the route, start of the drive; it then turns left around a corner
FILE = "town.npz"
STEP = 0.002  # meters
_UNIT = 32767  # quantization of normals: 16 bits are accurate to a hundredth of a degree


def town_world() -> World:
    return World(make_place(PLACE, SEED))


def spot_poses(world: World) -> np.ndarray:  # (2, 4, 4) T_world_sensor
    """Poses of the two scans: level with the road, at the height of a car's roof."""
    ride = Ride()
    return Trajectory(world.place.route, ride).poses(np.array(SPOTS) / ride.speed)


# --- the file


@dataclass(frozen=True, eq=False)
class EmbeddedScans:
    """`scan` and, from a few meters further on, `other`. Both have fields `ring`, `time` and `intensity`; `scan` also has the
    ground truth that `true_normals` needs: `normal`, `label` and `mixed`."""

    scan: Scan
    other: Scan
    T_world_scan: np.ndarray  # (4, 4)
    T_world_other: np.ndarray  # (4, 4)

    @property
    def T_scan_other(self) -> np.ndarray:  # (4, 4)
        return inverse(self.T_world_scan) @ self.T_world_other

    @property
    def given(self) -> Scan:
        """The scan without ground truth."""
        return self.scan.keep("ring", "time", "intensity")


def embedded_scans() -> EmbeddedScans:
    with as_file(files("poli.viewer.demo") / FILE) as path:
        return unpack(read_npz_arrays(path))


def pack(scans: EmbeddedScans, sensor: Sensor) -> dict[str, np.ndarray]:
    """The arrays of the file."""
    facts = {name: np.array(getattr(sensor, name)) for name in ("elevations", "steps", "max_range", "noise", "rate")}
    poses = np.stack([scans.T_world_scan, scans.T_world_other])
    truth = {
        "normals": _tabulate(scans.scan, sensor, np.rint(_UNIT * scans.scan.fields["normal"]).astype(np.int16)),
        "labels": _tabulate(scans.scan, sensor, scans.scan.fields["label"]),
        "mixed": _tabulate(scans.scan, sensor, scans.scan.fields["mixed"]),
    }
    tables = {}
    for name, scan in (("scan", scans.scan), ("other", scans.other)):
        distances = np.linalg.norm(scan.points.astype(np.float64), axis=1)
        tables[f"{name}_distances"] = _tabulate(scan, sensor, np.rint(distances / STEP).astype(np.uint16))
        tables[f"{name}_intensities"] = _tabulate(scan, sensor, np.rint(scan.fields["intensity"]).astype(np.uint8))
    return {**facts, "T_world_sensor": poses, **tables, **truth}


def unpack(arrays: Mapping[str, np.ndarray]) -> EmbeddedScans:
    sensor = Sensor(
        tuple(arrays["elevations"].tolist()), int(arrays["steps"]), max_range=float(arrays["max_range"]),
        noise=float(arrays["noise"]), rate=float(arrays["rate"]),
    )  # fmt: skip
    scan, other = (_read(arrays[f"{n}_distances"], arrays[f"{n}_intensities"], sensor) for n in ("scan", "other"))
    seen = arrays["scan_distances"] > 0
    truth = {
        "normal": (arrays["normals"][seen] / np.float32(_UNIT)).astype(np.float32),
        "label": arrays["labels"][seen],
        "mixed": arrays["mixed"][seen],
    }
    return EmbeddedScans(Scan(scan.points, {**scan.fields, **truth}), other, *arrays["T_world_sensor"])


def _tabulate(scan: Scan, sensor: Sensor, values: np.ndarray) -> np.ndarray:  # (N, ...) -> (steps, beams, ...)
    firing = np.rint(scan.fields["time"] * (sensor.rate * sensor.steps)).astype(np.intp)
    table = np.zeros((sensor.steps, len(sensor.elevations), *values.shape[1:]), values.dtype)
    table[firing, scan.fields["ring"]] = values
    return table


def _read(distances: np.ndarray, intensities: np.ndarray, sensor: Sensor) -> Scan:  # (steps, beams), (steps, beams)
    firing, ring = np.nonzero(distances)
    points = sensor.directions[firing, ring] * (STEP * distances[firing, ring])[:, None]
    fields: dict[str, np.ndarray] = {
        "ring": ring.astype(np.uint16),
        "time": sensor.times[firing].astype(np.float32),
        "intensity": intensities[firing, ring].astype(np.float32),
    }
    return Scan(points.astype(np.float32), fields)


# --- simulation


def simulated_scans() -> EmbeddedScans:
    """Scans from a stationary sensor without moving cars: all returns are on the world's surfaces."""
    world = town_world()
    poses = spot_poses(world)
    scan, other = (simulate_scan(world, SENSOR, T, seed) for seed, T in enumerate(poses))
    return EmbeddedScans(scan, other, *poses)


def main() -> None:
    path = Path(__file__).with_name(FILE)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **pack(simulated_scans(), SENSOR))
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
