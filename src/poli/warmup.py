"""The warm-up: call each public function once on small inputs, so that numba compiles and caches its kernels.

For container images and robots, where the first scan must not wait. Other argument types than those used here are compiled at
their first call."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import numpy as np

import poli
from poli import certify
from poli.beams.adjustment import Linear, Planes, equations
from poli.certify.checks import low_minima
from poli.estimation import load_model
from poli.io.formats.pcd import decompress
from poli.kdtree.tree import KDTree
from poli.lidar_odometry.drive_map import DriveMap
from poli.lidar_odometry.local_map import EllipsoidMap
from poli.lidar_odometry.matching import Target
from poli.threads import start_worker
from poli.viewer.render import Camera, render_ellipsoids
from poli.worlds import SENSORS, Ride, World, scan_of
from poli.worlds.drive import Drive
from poli.worlds.places import make_place
from poli.worlds.shapes import procedural_mesh


def warm_up(say: Callable[[str], None]) -> None:
    """Call everything in two processes; `say` receives what was called, and the seconds."""
    # The network is needed by the last tasks: by then, the first process has compiled it.
    tasks = (_estimates, _poses, _maps, _registration, _odometry, _files)
    with ProcessPoolExecutor(2, get_context("spawn"), start_worker) as pool:
        for line in pool.map(_timed, tasks):
            say(line)


def _timed(task: Callable[[], None]) -> str:
    os.environ["POLI_NOTICE"] = "0"
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these clouds are too small, and would warn
        task()
    return f"{task.__name__[1:]}: {perf_counter() - begin:.1f} s"


def _estimates() -> None:
    points = np.random.default_rng(0).standard_normal((600, 3))
    for model in ("lidar", "objects"):
        field = poli.estimate(points, model=model)
        field.mahalanobis(field.means)
        field.sample(2)
        if load_model(model).architecture.curvature:
            poli.estimate(points, model=model, curvature=True)
    poli.estimate(points, up=None)
    poli.estimate(points, motion=1.0)
    poli.pca(points, radius=0.5)
    field = poli.pca(points, k=8)
    render_ellipsoids(field, Camera((4.0, 0.0, 1.0), (0.0, 0.0, 0.0), width=40, height=30), np.ones((600, 3)))
    index = KDTree(points)
    index.nearest(1, points[:20])
    index.within(0.5)


def _poses() -> None:
    rng = np.random.default_rng(0)
    source = rng.normal(size=(40, 3))
    weights = np.einsum("nij,nkj->nik", *[rng.normal(size=(40, 3, 3))] * 2)
    prior = certify.PosePrior.isotropic(np.eye(4), 0.1, 0.1)
    for target in (source + 0.01 * rng.normal(size=(40, 3)), rng.normal(size=(40, 3))):  # the latter has no good pose
        certify.solve(source, target, weights, prior)
        certify.solve(source, target, weights, shortcut=False)
    low_minima(np.eye(10), np.eye(3), 1e-15)  # used if the relaxation is not tight
    one, unknowns = np.ones(20), np.zeros((20, 22), np.int64)
    planes = Planes(np.arange(20), np.zeros(20, np.int64), np.zeros((1, 3)))
    equations(Linear(planes, one, one, one, unknowns, np.ones((20, 22)), np.ones((20, 3))), 1)  # of the calibration of beams


def _registration() -> None:
    rng = np.random.default_rng(0)
    shape = procedural_mesh(8, resolution=48)
    poli.register(shape.sample(300, rng)[0], shape.sample(300, rng)[0])


def _maps() -> None:
    field, far = poli.pca(scan_of("town", SENSORS["vlp16"], seed=1), k=8), np.eye(4)
    poli.gicp(field, field)
    far[:3, 3] = 60.0, 0.0, 0.0
    seen = EllipsoidMap(cell=0.01, radius=50.0)
    for T in (np.eye(4), far):  # more cells than the initial capacity, then cells out of range
        seen.add(field, T)
        Target(seen.weighed).update(seen.weighed, seen.refresh())


def _odometry() -> None:
    # With point times, so that odometry deskews.
    world = World(make_place("town", 1))
    scans = list(Drive(world, SENSORS["vlp16"], Ride(), 3, 0, deskewed=False))
    world.distance(scans[0].points[:9].astype(np.float64))
    with tempfile.TemporaryDirectory() as folder:
        odometer = poli.Odometer()
        with DriveMap(Path(folder) / "map.ply", odometer) as drive_map:
            for scan in scans:
                odometer.add(scan)
                drive_map.add(scan)


def _files() -> None:
    scan = scan_of("town", SENSORS["vlp16"], seed=1)
    with tempfile.TemporaryDirectory() as folder:
        poli.write(scan, Path(folder) / "scan.pcd")
        found = poli.read(Path(folder) / "scan.pcd")
    poli.densify(poli.voxel_downsample(found, 0.5))
    poli.voxel_downsample(found, 0.5, "first")
    decompress(np.zeros(2, np.uint8), 1)
