"""Make the file of the two scans again: `python -m poli.show.demo.make`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from poli.data.simulate import simulate_scan
from poli.files.atomic import atomic_path
from poli.show.demo.embedded import FILE, EmbeddedScans, pack
from poli.show.demo.town import SENSOR, spot_poses, town_world


def simulated_scans() -> EmbeddedScans:
    """From a sensor that stands still, with no car in motion: all that it sees is in the world's surfaces."""
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
