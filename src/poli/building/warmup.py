"""The warm-up: call everything that users can reach on small inputs, so numba sees the types that the library really passes.

There are two lists for two processes that share a cache: the second reaches the network late, when the first has compiled it."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import poli
from poli import certify
from poli.certify.determinacy import low_minima
from poli.certify.implicit import adjoint, match_gradients
from poli.data.formats import lzf
from poli.data.shapes import procedural_mesh
from poli.data.simulate import SENSORS, Ride, World, scan_of
from poli.data.simulate.drive import Drive
from poli.data.simulate.places import make_place
from poli.ellipsoids.symmetric3 import cholesky3, eigh3
from poli.errors import DegenerateError
from poli.estimation.architecture import Architecture
from poli.estimation.arrangement import Viewpoint
from poli.estimation.grouping import group
from poli.estimation.model import Model
from poli.kdtree.tree import KDTree
from poli.show.render import Camera, render_ellipsoids
from poli.show.thinning import thin_field, thin_points
from poli.tasks.calibration.equations import Rows, equations
from poli.tasks.clique import cliques_through, maximum_clique
from poli.tasks.gicp import Target, gicp
from poli.tasks.graph import consistency_graph
from poli.tasks.odometry.drive_map import DriveMap
from poli.tasks.odometry.ellipsoid_map import EllipsoidMap
from poli.voxels import voxel_downsample

_LIDAR: dict[str, Any] = {
    "neighbors": (8, 8, 6), "edge": (8, 12, 16), "scalars": (12, 16, 20), "reach": 8, "wide": (6, 4), "frames": "sensor",
    "log_scale": True, "sensor": True, "size": 10, "curvature": 6,
}  # fmt: skip
_UP = np.array([0.0, 0.0, 1.0])


def rehearse(number: int) -> None:
    """Run one of the two lists of the warm-up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these clouds are too small, and would warn
        for act in PROCESSES[number]:
            act()


def _networks() -> None:
    points = _cloud(400)
    for settings in ({"curvature": 6, "curvature_wide": (8,)}, _LIDAR):
        for view in (Viewpoint(np.zeros(3), _UP), Viewpoint()):
            _model(settings).estimate(points, view, curvature=True)
            group(points, Architecture(**settings), view)


def _estimates() -> None:
    for points in (_cloud(600), _cloud(600).astype(np.float32)):
        for model in ("objects", "lidar"):
            field = poli.estimate(points, model=model)
            field.normals  # noqa: B018
            field.mahalanobis(field.means)
            field.sample(2)
        poli.estimate(points, motion=1.0)
        for field in (poli.pca(points, k=8), poli.pca(points, radius=0.5)):
            field.oriented_normals(np.zeros(3))
    cholesky3(field.covariances.copy())
    eigh3(field.covariances.copy())
    index = KDTree(points)
    index.nearest(4)
    index.nearest(1, points[:20])
    index.within(0.5)


def _alignment() -> None:
    field = poli.pca(_cloud(400), k=8)
    gicp(field, field)


def _solver() -> None:
    rng = np.random.default_rng(0)
    source = rng.normal(size=(40, 3))
    target = source + 0.01 * rng.normal(size=(40, 3))
    prior = certify.PosePrior.isotropic(np.eye(4), 0.1, 0.1)
    mixed = np.einsum("nij,nkj->nik", *[rng.normal(size=(40, 3, 3))] * 2)
    for p, q in ((source, target), (source, rng.normal(size=(40, 3)))):  # the latter has no good pose: all paths are taken
        for weights in (np.tile(np.eye(3), (40, 1, 1)), mixed):
            for given in (None, prior):
                for shortcut in (True, False):
                    pose = certify.solve(p, q, weights, given, shortcut)
    for gradient in (np.ones((4, 4)), np.ones((4, 8))[:, ::2]):  # torch may pass noncontiguous gradients
        u = adjoint(pose.T_target_source, pose.frame, pose.hessian, gradient)
    match_gradients(source, target, mixed, pose.T_target_source, pose.frame, u)
    low_minima(np.eye(10), np.eye(3), 1e-15)  # used where the relaxation is not tight, which no small example triggers
    line = np.outer(np.arange(5.0), _UP)
    for p, q in ((line, line), (np.vstack([np.eye(3), -np.eye(3)]), np.vstack([-np.eye(3), np.eye(3)]))):
        with suppress(DegenerateError):
            certify.solve(p, q, np.tile(np.eye(3), (len(p), 1, 1)))
    stretched = np.vstack([np.diag([1.0, 2.0, 3.0]), -np.diag([1.0, 2.0, 3.0])])
    with suppress(DegenerateError):  # four rotations fit equally well
        certify.solve(stretched, 0 * stretched, np.tile(np.diag([1.0, 2.0, 3.0]), (6, 1, 1)))


def _shapes() -> None:
    for seed in range(24):  # all families of shapes and surface details
        procedural_mesh(seed, resolution=24)


def _matches() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(150, 3))
    for noise in (0.0, 0.5):
        graph = consistency_graph(points, points + noise * rng.normal(size=points.shape), 0.2)
        maximum_clique(graph)
        cliques_through(graph, 10)


def _scans_of_a_world() -> None:
    world = World(make_place("town", 1))
    drive = Drive(world, SENSORS["vlp16"], Ride(), 3, 0, deskewed=False)  # with point times, so that odometry deskews
    scans = list(drive)
    world.distance(scans[0].points.astype(np.float64))
    poli.odometry(scans)
    field, far = poli.pca(scans[0], k=8), np.eye(4)
    far[:3, 3] = 60.0, 0.0, 0.0
    seen = EllipsoidMap(cell=0.01, radius=50.0)
    for T in (np.eye(4), far):  # more cells than the initial capacity, then cells out of range
        seen.add(field, T)
        changed = seen.refresh()
        Target(seen.weighed).update(seen.weighed, changed)
    with tempfile.TemporaryDirectory() as folder:
        odometer = poli.Odometer()
        with DriveMap(Path(folder) / "map.ply", odometer) as drive_map:
            for scan in scans:
                odometer.add(scan)
                drive_map.add(scan)
        thin_points(poli.read(Path(folder) / "map.ply"), 500)
    thin_field(field, 500)


def _calibration() -> None:
    rng, zeros = np.random.default_rng(0), np.zeros(20, np.int64)
    pairs, six, one = rng.normal(size=(20, 2)), rng.normal(size=(20, 6)), np.ones(20)
    equations(Rows(np.array([0, 20]), zeros, np.ones((20, 3)), zeros, zeros, one, pairs, pairs, six, one, one), 1, 3)


def _pictures() -> None:
    rng = np.random.default_rng(0)
    camera = Camera(eye=(4.0, 0.0, 1.0), target=(0.0, 0.0, 0.0), width=40, height=30)
    for dtype in (np.float64, np.float32):
        render_ellipsoids(poli.pca(_cloud(100).astype(dtype), k=8), camera, rng.random((100, 3)))


def _files() -> None:
    """Call everything with arrays from files, which may be read-only or have another memory layout."""
    scan = scan_of("town", SENSORS["vlp16"], seed=1)
    for data in (np.zeros(500, np.uint8), np.frombuffer(bytes(500), np.uint8)):
        packed = lzf.compress(data)
        lzf.decompress(packed, 500)
        lzf.decompress(np.frombuffer(packed.tobytes(), np.uint8), 500)
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("bin", "pcd", "ply", "npz", "csv"):
            path = Path(folder) / f"scan.{ending}"
            poli.write(poli.Scan(scan.points), path)
            found = poli.read(path)
            for size in (0.5, 2.0):
                voxel_downsample(found, size, "first")
                voxel_downsample(found, size)
            poli.densify(found)
            poli.estimate(found)
            poli.pca(found, k=8)


def _registration() -> None:
    shape, rng = procedural_mesh(8, resolution=48), np.random.default_rng(0)
    poli.register(shape.sample(300, rng)[0], shape.sample(300, rng)[0])
    scan = scan_of("town", SENSORS["vlp16"], seed=1)
    poli.register(scan.points[::2], scan, preset="vlp16")


def _cloud(count: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((count, 3))


def _model(settings: dict[str, Any]) -> Model:
    """Return a model with random weights."""
    architecture = Architecture(**settings)
    rng = np.random.default_rng(0)
    weights = {}
    for name, (inputs, outputs) in architecture.linear_shapes().items():
        weights[f"{name}.weight"] = rng.standard_normal((outputs, inputs), np.float32) / np.float32(np.sqrt(inputs))
        weights[f"{name}.bias"] = np.zeros(outputs, np.float32)
    return Model("warm-up", architecture, 1.0, weights, {})


PROCESSES: tuple[tuple[Callable[[], None], ...], ...] = (
    (_networks, _estimates, _alignment),
    (_solver, _shapes, _matches, _pictures, _files, _registration, _scans_of_a_world, _calibration),
)
