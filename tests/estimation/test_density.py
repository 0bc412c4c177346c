"""Warnings about clouds whose density a model was not trained for: when they appear, and when not."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import poli
from poli.cli import main
from poli.errors import DensityWarning, InputError, ViewpointWarning
from poli.estimation.estimate import FEWEST, load_model, median_spacing, trained_voxels
from poli.estimation.frames import spacing_per_radius
from poli.kdtree.tree import KDTree
from poli.lidar_odometry import OdometryConfig
from poli.voxels import voxel_downsample
from poli.worlds import SENSORS, scan_of
from poli.worlds.shapes import procedural_mesh

TOWN = 2_000_003


@pytest.fixture(scope="module")
def scan():
    """Every second column of a VLP-16, in double precision."""
    raw = scan_of("town", replace(SENSORS["vlp16"], steps=SENSORS["vlp16"].steps // 2), TOWN)
    return poli.Scan(raw.points.astype(np.float64))


def complaints(call, *arguments, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **options)
    return [str(w.message) for w in caught if issubclass(w.category, DensityWarning)]


def measured(complaint):
    return float(re.match(r"points are ([\d.]+) m apart", complaint)[1])


def test_familiar_densities_give_no_warning(scan):
    for cloud in (scan, *(voxel_downsample(scan, size) for size in (0.2, 0.5, 2.0))):
        assert complaints(poli.estimate, cloud) == []


def test_dense_sparse_and_wrong_units_warn_once_with_the_remedy(scan):
    cloud = voxel_downsample(scan, 0.5).points
    spacing = median_spacing(_spacing(cloud))
    (dense,) = complaints(poli.estimate, cloud * 0.01)
    assert measured(dense) == pytest.approx(0.01 * spacing, rel=0.1)  # another sample of the points
    assert "voxel_downsample(scan, 0.2)" in dense
    (millimeters,) = complaints(poli.estimate, cloud * 1000.0)
    assert measured(millimeters) == pytest.approx(1000.0 * spacing, rel=0.1)
    assert "in millimeters" in millimeters
    (sparse,) = complaints(poli.estimate, cloud * 12.0)
    assert "another unit" in sparse
    assert complaints(poli.estimate, cloud * 1000.0, warn=False) == []


def test_object_models_warn_only_about_the_number_of_points():
    points, _ = procedural_mesh(3_000_000, 64).sample(300, np.random.default_rng(0))
    for scale in (1e-3, 1.0, 1e4):
        assert complaints(poli.estimate, scale * points, model="objects") == []
    (few,) = complaints(poli.estimate, points[: FEWEST - 1], model="objects")
    assert f"{FEWEST - 1} points; the model 'objects' needs {FEWEST}" in few
    assert complaints(poli.estimate, points[:FEWEST], model="objects") == []


def test_known_densities_are_read_from_the_model_file():
    lidar = load_model("lidar")
    assert trained_voxels(lidar) == (0.2, 2.0)
    assert trained_voxels(load_model("objects")) is None
    finer = json.loads(lidar.metadata["config"])
    finer["scans"]["voxels"] = [0.1, 0.05]
    assert trained_voxels(replace(lidar, training=finer)) == (0.05, 0.1)
    for voxels in ([], ["0.2"], None, [-1.0]):
        finer["scans"]["voxels"] = voxels
        assert trained_voxels(replace(lidar, training=finer)) is None
    assert trained_voxels(replace(lidar, training={})) is None


def test_tasks_that_choose_their_voxels_do_not_warn(scan):
    points, _ = procedural_mesh(3_000_000, 64).sample(FEWEST - 4, np.random.default_rng(0))
    assert complaints(poli.odometry, [scan, scan], OdometryConfig(voxel=7.0)) == []
    assert complaints(poli.register, points, points) == []


def test_densify_reports_why_it_added_nothing(scan):
    (millimeters,) = complaints(poli.densify, poli.Scan(scan.points[:3000] * 1000.0))
    assert re.match(r"no points were added: none of \d+ ellipsoids .* \(max_range 120, .*\); points are .* apart", millimeters)
    assert "in millimeters" in millimeters
    (few,) = complaints(poli.densify, scan.points[:5])
    assert few == "no points were added: 5 returns are too few for ellipsoids, 16 are needed; give more of the cloud"
    (thick,) = complaints(poli.densify, scan, max_sigma=12.0, max_thickness=1e-6)
    assert re.fullmatch(r"no points .*: none of \d+ ellipsoids .* \(max_range 120, max_thickness 1e-06\)", thick)
    for asked in ({}, {"per_point": 0}, {"max_points": 1}):
        assert complaints(poli.densify, scan, **asked) == []


def test_map_coordinates_are_distinguished_from_sensor_coordinates(scan):
    """UTM: the sensor is not at the origin, and its position was not given."""
    position = np.array([691_000.0, 5_335_000.0, 520.0])
    cloud = voxel_downsample(scan, 0.5).points
    with pytest.warns(ViewpointWarning, match=r"points lie 53\d\d km from the origin.* subtract the sensor") as caught:
        poli.estimate(cloud + position)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ViewpointWarning)
        poli.estimate(cloud + position, viewpoint=position)
        poli.estimate(cloud + position, merged=True)
        poli.estimate(cloud + position, model="objects")  # does not use the sensor position
        poli.estimate(cloud + position, warn=False)
        poli.estimate(cloud * 1000.0, warn=True)  # millimeters: far, but in all directions
    with pytest.raises(InputError, match=r"points lie 53\d\d km from the origin; subtract the sensor's position first"):
        voxel_downsample(cloud + position, 0.5)


def test_the_command_line_warns_in_one_line(scan, tmp_path, capsys):
    poli.write(poli.Scan(voxel_downsample(scan, 0.5).points * 1000.0), tmp_path / "mm.npz")
    for _ in range(2):  # every time, not only the first
        with pytest.raises(SystemExit, match="0"):
            main(["estimate", str(tmp_path / "mm.npz"), str(tmp_path / "field.npz")])
        said = capsys.readouterr().err
        (line,) = [line for line in said.splitlines() if "warning" in line]
        assert line.startswith("poli: warning: points are ")


def _spacing(points):
    return spacing_per_radius(16) * np.sqrt((KDTree(points).nearest(17)[0][:, 1:] ** 2).mean(axis=1))
