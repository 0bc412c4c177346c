"""The map of a drive: what it holds, in how much memory, and which scans are in it."""

from dataclasses import replace

import numpy as np
import pytest

import poli
from odometry_runs import SENSOR
from poli.ellipsoids import Ellipsoids
from poli.errors import FormatError, InputError, WriteError
from poli.lidar_odometry import DriveMap, Odometer, OdometryConfig, Status, Step, deskew
from poli.lidar_odometry.drive_map import CellAverages
from poli.scan import Scan
from poli.se3 import exp
from poli.viewer.content import thin_field, thin_points
from poli.worlds import Ride, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place


class Placed:
    """Stands for an odometer: scans are placed at given poses."""

    def __init__(self, voxel=0.4, velocity=None):
        self.steps, self.voxel, self.map, self.field, self.velocity = [], voxel, None, None, velocity

    def place(self, T, status=Status.TRACKED, field=None):
        self.steps.append(Step(len(self.steps), None, T, status if self.steps else Status.FIRST, "", 100, None, {}))
        self.field = field

    def still(self, scan):
        return scan if self.velocity is None else deskew(scan, self.velocity)


def cell_means(rows, cell):
    """The average row of each cell, sorted; obvious and slow."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(np.floor(row[:3] / cell).astype(int)), []).append(row)
    return np.array([np.mean(groups[key], axis=0) for key in sorted(groups)])


def by_cell(rows, cell):
    keys = np.floor(rows[:, :3] / cell).astype(int)
    return rows[np.lexsort(keys.T[::-1])]


# --- averages in limited memory


@pytest.mark.parametrize("most", [1 << 20, 256], ids=["in memory", "in files"])
def test_averages_are_those_of_all_rows(tmp_path, monkeypatch, rng, most):
    monkeypatch.setattr("poli.lidar_odometry.drive_map._FILES", 7)
    cells, weights, added = CellAverages(0.5, 4, tmp_path, most), [], []
    for i in range(12):  # forth and back, so that cells are visited again after they were moved to the file
        rows = rng.uniform(-1.0, 1.0, (300, 4)) * [3.0, 3.0, 1.0, 50.0] + [2.0 * min(i, 11 - i), 0.0, 0.0, 0.0]
        cells.add(rows, np.full(len(rows), 1.0 + i))
        added.append(rows)
        weights.append(np.full(len(rows), 1 + i))
    assert (cells.moved > 0) == (most == 256)
    found = np.concatenate(list(cells.averages()))
    repeated = np.repeat(np.concatenate(added), np.concatenate(weights), axis=0)
    np.testing.assert_allclose(by_cell(found, 0.5), cell_means(repeated, 0.5), atol=1e-9)
    cells.close()
    assert not list(tmp_path.iterdir())


# --- points


def test_points_of_all_scans(tmp_path, rng):
    odometer, rows = Placed(), []
    with DriveMap(tmp_path / "map.ply", odometer) as drive_map:
        for i in range(5):
            scan = Scan(rng.uniform(-5.0, 5.0, (400, 3)), {"intensity": rng.uniform(0.0, 1.0, 400), "ring": np.zeros(400, int)})
            T = exp(np.array([0.0, 0.0, 0.2 * i, 300.0 * i, 0.0, 0.0]))  # far beyond any radius
            odometer.place(T)
            drive_map.add(scan)
            rows.append(np.column_stack([scan.points @ T[:3, :3].T + T[:3, 3], scan.fields["intensity"]]))
    found = poli.read(tmp_path / "map.ply")
    assert drive_map.written.voxel == 0.1  # a quarter of the odometry's
    expected = cell_means(np.concatenate(rows), 0.1)
    assert drive_map.written.count == len(found) == len(expected)
    got = np.column_stack([found.points, found.fields["intensity"]])
    order, other = (np.lexsort(np.rint(r[:, :3] * 1e3).T) for r in (got, expected.astype(np.float32)))
    np.testing.assert_allclose(got[order], expected[other], atol=1e-3)
    assert [path.name for path in tmp_path.iterdir()] == ["map.ply"]


def test_the_first_scan_is_deskewed_with_the_motion_to_the_second(tmp_path):
    """Its motion is not known before."""
    scan = Scan(np.array([[10.0, 0.0, 0.0], [0.0, 10.0, 0.0]]), {"time": np.array([0.0, 0.1])}, stamp=0)
    odometer = Placed(velocity=np.zeros(6))
    with DriveMap(tmp_path / "map.ply", odometer, voxel=0.01) as drive_map:
        odometer.place(np.eye(4))
        drive_map.add(scan)
        odometer.velocity = np.array([0.0, 0.0, 0.0, 8.0, 0.0, 0.0])
        odometer.place(exp(np.array([0.0, 0.0, 0.0, 0.8, 0.0, 0.0])))
        drive_map.add(replace(scan, stamp=10**8))
    found = poli.read(tmp_path / "map.ply").points
    expected = [[0.8, 10.0, 0.0], [1.6, 10.0, 0.0], [10.0, 0.0, 0.0], [10.8, 0.0, 0.0]]
    np.testing.assert_allclose(found[np.lexsort(found.T[::-1])], expected, atol=1e-5)


def test_an_odometer_undoes_the_motion_of_all_returns():
    world = World(make_place("town", 2_000_003))
    skewed, still = (list(Drive(world, SENSOR, Ride(), 4, deskewed=done, movers=False)) for done in (False, True))
    odometer, off = Odometer(OdometryConfig(voxel=0.5, model="pca", deskew=True, max_range=50.0)), []
    for scan, true in zip(skewed, still, strict=True):
        odometer.add(scan)
        found = odometer.still(scan)
        within = np.linalg.norm(scan.points.astype(float), axis=1) <= 50.0
        assert len(found) == within.sum()
        assert set(found.fields) == set(scan.fields) - {"time"}
        off.append((np.abs(found.points - true.points[within]).mean(), np.abs(scan.points - true.points)[within].mean()))
    after, before = np.transpose(off[1:])
    assert (after < 0.3 * before).all(), off


def test_predicted_scans_are_left_out_and_one_scan_is_a_map(tmp_path):
    odometer = Placed()
    with DriveMap(tmp_path / "map.ply", odometer, voxel=0.5) as drive_map:
        for status, x in ((Status.FIRST, 1.0), (Status.PREDICTED, 5.0)):
            odometer.place(np.eye(4), status)
            drive_map.add(np.array([[x, 0.25, 0.25]]))
    np.testing.assert_allclose(poli.read(tmp_path / "map.ply").points, [[1.0, 0.25, 0.25]])


# --- ellipsoids


def test_ellipsoids_of_all_scans(tmp_path, sweeps):
    odometer = Odometer(OdometryConfig(voxel=0.5, radius=15.0, max_range=60.0, model="pca"))
    with DriveMap(tmp_path / "map.ply", odometer, "ellipsoids") as drive_map:
        for scan in sweeps:
            odometer.add(scan)
            drive_map.add(scan)
    found = Ellipsoids.load(tmp_path / "map.ply")
    assert (drive_map.written.voxel, drive_map.written.kind) == (odometer.map.cell, "ellipsoids")
    assert len(found) == drive_map.written.count > len(odometer.map)
    assert np.linalg.eigvalsh(found.covariances)[:, 0].min() > 0.0
    keys = np.floor(found.means / odometer.map.cell)
    assert len(np.unique(keys, axis=0)) > 0.99 * len(found)  # means of convex cells; rounding may move one across a border
    to_sensor = odometer.poses[:, :3, 3].mean(axis=0) - found.means
    assert ((found.normals * to_sensor).sum(axis=1) > 0.0).mean() > 0.95


# --- however it ends


def test_an_error_keeps_the_scans_so_far_and_nothing_is_no_file(tmp_path, rng):
    odometer = Placed()
    drive_map = DriveMap(tmp_path / "map.ply", odometer, voxel=0.1)
    odometer.place(np.eye(4))
    drive_map.add(rng.uniform(-5.0, 5.0, (100, 3)))
    with pytest.raises(InputError, match="no scan"), drive_map:
        raise InputError("no scan")
    assert len(poli.read(tmp_path / "map.ply")) == drive_map.written.count > 90
    with DriveMap(tmp_path / "none.ply", odometer) as drive_map:
        pass
    assert drive_map.written is None
    assert [path.name for path in tmp_path.iterdir()] == ["map.ply"]


def test_wrong_arguments_and_places(tmp_path, rng):
    with pytest.raises(FormatError, match=r"map\.pcd: a map is written as \.ply"):
        DriveMap("map.pcd", Placed())
    with pytest.raises(InputError, match="kind is 'voxels'; expected one of points, ellipsoids"):
        DriveMap("map.ply", Placed(), "voxels")
    with pytest.raises(InputError, match="voxel"):
        DriveMap("map.ply", Placed(), voxel=-1.0)
    odometer = Placed()
    drive_map = DriveMap(tmp_path / "map.ply", odometer, voxel=0.01)
    odometer.place(np.eye(4))
    odometer.place(np.eye(4))
    drive_map.add(rng.uniform(-5.0, 5.0, (100, 3)))
    drive_map._cells._folder, drive_map._cells._most = tmp_path / "gone", 1 << 14
    with pytest.raises(WriteError, match=r"map\.ply: cannot be written"):
        drive_map.add(rng.uniform(-50.0, 50.0, (60_000, 3)))  # more cells than fit into memory


# --- files and viewers


def test_thinned_points_cover_the_cloud(rng):
    scan = Scan(rng.uniform(0.0, 10.0, (20_000, 3)) * [1.0, 1.0, 0.01])
    same, voxel = thin_points(scan, 20_000)
    assert (len(same), voxel) == (20_000, None)
    thin, voxel = thin_points(scan, 500)
    assert 300 < len(thin) <= 500
    apart = np.linalg.norm(scan.points[:, None] - thin.points[None], axis=2).min(axis=1)
    assert apart.max() < np.sqrt(2.0) * voxel


def test_thinned_ellipsoids_have_the_moments_of_those_they_stand_for(rng):
    field = poli.pca(rng.uniform(0.0, 10.0, (5000, 3)) * [1.0, 1.0, 0.01], k=10)
    thin, voxel = thin_field(field, 1)
    assert len(thin) == 1
    np.testing.assert_allclose(thin.means[0], field.means.mean(axis=0))
    apart = field.means - field.means.mean(axis=0)
    np.testing.assert_allclose(thin.covariances[0], field.covariances.mean(axis=0) + apart.T @ apart / len(field), atol=1e-9)
    thin, voxel = thin_field(field, 400)
    assert 250 < len(thin) <= 400
    assert np.abs(thin.normals[:, 2]).min() > 0.9  # still a plane
    assert 0.2 < voxel < 1.0
