"""Registration of two scans of one place: preparing a scan, and the pose between two."""

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from poli import se3
from poli.cli import app
from poli.data.simulate import Ride, Sensor, Trajectory, World, sweep
from poli.data.simulate.places import make_place
from poli.errors import DegenerateError, DoubtfulPose, InputError
from poli.scan import Scan
from poli.tasks import PRESETS, ScanPreset, register_scans
from poli.tasks.densify import DensifyConfig
from poli.tasks.scan_registration import scan_surface

SENSOR = Sensor(tuple(float(e) for e in np.linspace(-15.0, 15.0, 16)), 600, max_range=80.0, noise=0.01)


@pytest.fixture(scope="module")
def street():
    """Two scans, ten meters apart, and the pose of the first in the second."""
    world = World(make_place("town", 2_000_010))
    trajectory = Trajectory(world.place.route, Ride(), seed=0)
    scans, poses = [], []
    for number, time in enumerate((1.0, 2.25)):
        scans.append(sweep(world, SENSOR, trajectory.poses, time, seed=number).clean().points.astype(np.float64))
        poses.append(trajectory.poses(np.array([time]))[0])
    return scans[0], scans[1], se3.inverse(poses[1]) @ poses[0]


def turned(points, angle):  # (N, 3), radians -> (N, 3), (4, 4)
    T = se3.exp(np.array([0.0, 0.0, angle, 0.0, 0.0, 0.0]))
    return points @ T[:3, :3].T, T


def errors(T, T_true):  # degrees, meters
    apart = se3.log(se3.inverse(T_true) @ T)
    return np.degrees(np.linalg.norm(apart[:3])), np.linalg.norm(T[:3, 3] - T_true[:3, 3])


@pytest.mark.parametrize("angle", [0.0, 2.0, -3.0])
def test_scans_are_registered_for_any_heading(street, angle):
    source, target, T_target_source = street
    moved, T_moved_source = turned(source, angle)
    result = poli.register(moved, Scan(target), preset="vlp16")
    rotation, translation = errors(result.T_target_source, T_target_source @ se3.inverse(T_moved_source))
    assert rotation < 1.0
    assert translation < 0.3
    assert result.certified
    assert result.agreement > 0.5
    # Inliers are rows of the scans: the points in these rows are close to each other under the pose.
    p, q = moved[result.inliers[:, 0]], target[result.inliers[:, 1]]
    there = p @ result.T_target_source[:3, :3].T + result.T_target_source[:3, 3]
    assert np.median(np.linalg.norm(there - q, axis=1)) < 2.0 * PRESETS["vlp16"].voxel


def test_scans_of_different_places_give_a_warning(street):
    source, *_ = street
    world = World(make_place("riverside", 2_000_010))
    elsewhere = sweep(world, SENSOR, Trajectory(world.place.route, Ride(), seed=0).poses, 1.0).clean()
    with pytest.warns(DoubtfulPose, match=r"only \d+% .* found in the target"):
        assert poli.register(source, elsewhere, preset="vlp16").agreement < 0.3


def test_scans_are_not_mistaken_for_objects():
    many = np.random.default_rng(0).normal(size=(20_001, 3))
    with pytest.raises(InputError, match=r"target: 20001 points look like a scan.* with preset= \(vlp16, "):
        poli.register(many[:100], many)


def test_a_surface_has_one_point_per_voxel_with_normals_facing_the_sensor(street):
    source, *_ = street
    preset = ScanPreset(max_range=30.0)
    points, normals, rows = scan_surface(source, preset)
    assert len(points) == len(normals) == len(rows)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-9)
    assert (np.einsum("ni,ni->n", normals, points) <= 0).mean() > 0.95
    assert np.linalg.norm(points, axis=1).max() <= 30.0
    denser = len(points)
    assert denser > len(scan_surface(source, ScanPreset(DensifyConfig(per_point=0), max_range=30.0)).points)


def test_bad_input_is_named(street):
    source, target, _ = street
    with pytest.raises(InputError, match="preset is 'vlp17'; expected one of vlp16"):
        poli.register(source, target, preset="vlp17")
    with pytest.raises(InputError, match=r"preset: .*source_field"):
        poli.register(source, target, preset="vlp16", source_field=poli.pca(source))
    with pytest.raises(DegenerateError, match="source: 10 points are too few"):
        poli.register(source[:10], target, preset="vlp16")
    with pytest.raises(DegenerateError, match="target: 0 points within 60 m"):
        poli.register(source, target + [500.0, 0.0, 0.0], preset="vlp16")
    with pytest.raises(InputError, match="voxel is 0"):
        ScanPreset(voxel=0)
    for name in ("feature_radius", "noise_bound"):  # 0 does not mean "not given"
        with pytest.raises(InputError, match=f"{name} is 0.0; expected a positive length"):
            poli.register(source, target, preset="vlp16", **{name: 0.0})


def test_given_lengths_override_the_presets(street, monkeypatch):
    source, target, _ = street
    seen = {}

    def look(*_, **options):
        seen.update(options)
        raise DegenerateError("seen")

    monkeypatch.setattr("poli.tasks.scan_registration.register_by_normals", look)
    with pytest.raises(DegenerateError, match="seen"):
        register_scans(source, target, "os2_128", noise_bound=0.25)
    assert (seen["noise_bound"], seen["feature_radius"]) == (0.25, PRESETS["os2_128"].feature_radius)


def test_the_command(street, tmp_path):
    source, target, T = street
    for name, points in (("a.pcd", source), ("b.bin", target)):
        poli.write(Scan(points.astype(np.float32)), tmp_path / name)
    words = ["register", str(tmp_path / "a.pcd"), str(tmp_path / "b.bin"), "--preset", "vlp16", "--out", str(tmp_path / "T.txt")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    rotation, translation = errors(np.loadtxt(tmp_path / "T.txt"), T)
    assert rotation < 1.0
    assert translation < 0.3
