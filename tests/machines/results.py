"""`python -m machines.results OUT`: write the library's numerical answers to fixed questions as arrays to a file.

The questions are the same numbers in all settings of a run: drawn by numpy, or simulated once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

import poli
from benchmarks.data.degenerate_problems import DEGENERATE, nudged, sound
from poli.certify import solve
from poli.errors import DegenerateError
from poli.lidar_odometry.gicp import gicp
from poli.voxels import voxel_downsample
from poli.worlds import SENSORS, scan_of

Answers = Iterator[tuple[str, np.ndarray]]


def certify() -> Answers:
    rng = np.random.default_rng(0)
    poses = [solve(*sound(rng)) for _ in range(200)]
    yield "certify: rotation", np.stack([pose.T_target_source[:3, :3] for pose in poses])
    yield "certify: verdict", np.array([pose.certified for pose in poses])
    accepted = [_accepted(make(rng)) for make in DEGENERATE.values() for _ in range(10)]
    yield "certify: verdict on degenerate problems", np.array(accepted)
    # Far from every threshold: at a threshold, either verdict is right.
    beside = [_accepted(nudged(rng, make(rng), by)) for make in DEGENERATE.values() for by in (1e-14, 1e-2)]
    yield "certify: verdict beside degenerate problems", np.array(beside)


def _accepted(problem: tuple) -> bool:
    try:
        solve(*problem)
    except DegenerateError:
        return False
    return True


def _scan(seed: int) -> np.ndarray:
    """A simulated scan, made by the first setting that needs it and kept beside OUT for the others.

    Its last digits depend on the BLAS library, and with them its voxels and the seed of the samples of `densify`."""
    shared = Path(sys.argv[1]).with_name(f"scan_{seed}.npy")
    if not shared.exists():
        own = shared.with_name(f"scan_{seed}_{os.getpid()}.npy")
        np.save(own, np.round(voxel_downsample(scan_of("town", SENSORS["vlp16"], seed=seed), 0.5).points.astype(np.float64), 3))
        with suppress(FileExistsError):  # another setting was faster
            os.link(own, shared)
    return np.load(shared)


def estimation() -> Answers:
    rng = np.random.default_rng(1)
    cloud = rng.standard_normal((3000, 3)) * [3.0, 2.0, 0.2]
    for name, field in (
        ("objects", poli.estimate(cloud, model="objects")),
        ("lidar", poli.estimate(_scan(1))),
        ("pca", poli.pca(cloud, k=24)),
        ("pca of a radius", poli.pca(cloud, radius=0.5)),
    ):
        size = np.abs(field.covariances).max(axis=(1, 2), keepdims=True)
        yield f"estimate: {name}", field.covariances / size


def tasks() -> Answers:
    scan = _scan(1)
    a, b = (poli.estimate(scan[i::2]) for i in range(2))
    yield "gicp: pose", gicp(a, b).T_target_source
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    found = poli.register(scan[::2] @ turn.T, scan, preset="vlp16")
    yield "register: pose", found.T_target_source
    shift = np.array([0.4, 0.0, 0.0])
    yield "odometry: poses", np.asarray(poli.odometry([scan[i::4] - i * shift for i in range(4)]))
    yield "densify: points", poli.densify(poli.Scan(scan)).points[len(scan) :].astype(np.float64)


def main() -> None:
    np.savez(sys.argv[1], **dict([*certify(), *estimation(), *tasks()]))


if __name__ == "__main__":
    main()
