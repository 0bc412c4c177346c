"""Registration of two scans of one place: preparing a scan, and the pose between two."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from poli import se3
from poli.cli import app
from poli.densification import DensifyConfig
from poli.errors import DegenerateError, DoubtfulPose, InputError
from poli.registration import PRESETS, ScanPreset
from poli.registration.presets import choose_preset
from poli.registration.search import tilt
from poli.registration.verdict import scan_surface
from poli.scan import Scan
from poli.worlds import SENSORS, Ride, Sensor, Trajectory, World, sweep, usual_ride
from poli.worlds.places import make_place
from poli.worlds.shapes import procedural_mesh

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
    assert 0.7 < result.probability <= 1.0
    # Inliers are rows of the scans: the points in these rows are close to each other under the pose.
    p, q = moved[result.inliers[:, 0]], target[result.inliers[:, 1]]
    there = p @ result.T_target_source[:3, :3].T + result.T_target_source[:3, 3]
    assert np.median(np.linalg.norm(there - q, axis=1)) < 2.0 * PRESETS["vlp16"].voxel


@pytest.fixture(scope="module")
def elsewhere():
    """A scan of another place."""
    world = World(make_place("riverside", 2_000_010))
    return sweep(world, SENSOR, Trajectory(world.place.route, Ride(), seed=0).poses, 1.0).clean()


def test_scans_of_different_places_give_a_warning(street, elsewhere):
    source, *_ = street
    with pytest.warns(DoubtfulPose, match=r"probably wrong: .* probability of \d+%"):
        result = poli.register(source, elsewhere, preset="vlp16")
    assert 0.0 <= result.probability < 0.5
    assert tilt(result.T_target_source) <= 45.0


def test_scans_of_a_tilted_sensor_are_registered_on_request(street):
    source, target, T_target_source = street
    tip = se3.exp(np.array([np.deg2rad(80.0), 0.0, 0.0, 0.0, 0.0, 0.0]))
    tipped, T_true = source @ tip[:3, :3].T, T_target_source @ se3.inverse(tip)
    result = poli.register(tipped, target, preset="vlp16", upright=False)
    rotation, translation = errors(result.T_target_source, T_true)
    assert rotation < 1.0
    assert translation < 0.3
    assert 0.5 < result.probability <= 1.0


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
    with pytest.raises(InputError, match=r"target: 20001 points look like a scan.* choose a preset \(vlp16, "):
        poli.register(source, np.resize(target, (20_001, 3)))
    for name in ("feature_radius", "noise_bound"):  # 0 does not mean "not given"
        with pytest.raises(InputError, match=f"{name} is 0.0; expected a number above 0"):
            poli.register(source, target, preset="vlp16", **{name: 0.0})


def test_given_lengths_override_the_presets(street, monkeypatch):
    source, target, _ = street
    seen = {}

    def look(*_, **options):
        seen.update(options)
        raise DegenerateError("seen")

    monkeypatch.setattr(sys.modules["poli.registration.register"], "register_by_normals", look)
    with pytest.raises(DegenerateError, match="seen"):
        poli.register(source, target, preset="os2_128", noise_bound=0.25)
    assert (seen["noise_bound"], seen["feature_radius"]) == (0.25, PRESETS["os2_128"].feature_radius)


@pytest.fixture(scope="module")
def room():
    """A scan of a room, of fewer points than the sensor has, since some formats store no ring numbers."""
    world = World(make_place("rooms", 2_000_010))
    walk = Trajectory(world.place.route, usual_ride("rooms"), seed=0)
    return [sweep(world, SENSORS["mid360"], walk.poses, time, seed=0).clean().keep("ring") for time in (2.0, 3.0)]


def test_presets_are_chosen_from_the_clouds(street, room, rng):
    source, target, _ = street
    assert choose_preset(Scan(source), target) == "vlp16"
    assert choose_preset(*room) == "indoor"
    assert choose_preset(np.repeat(source, 6, axis=0), np.repeat(target, 6, axis=0)) == "hdl64e"
    part = procedural_mesh(8, 48).sample(5_000, rng)[0]
    for cloud in (part, 100.0 * part, 100.0 * part + [300.0, 0.0, 0.0], np.repeat(100.0 * part, 6, axis=0), part[:3]):
        assert choose_preset(cloud, cloud) == "objects"
    assert choose_preset(source, part) == "objects"


def test_scans_indoors_are_registered_by_themselves(room):
    world = World(make_place("rooms", 2_000_010))
    T_a, T_b = Trajectory(world.place.route, usual_ride("rooms"), seed=0).poses(np.array([2.0, 3.0]))
    result = poli.register(*room, preset="auto")
    rotation, translation = errors(result.T_target_source, se3.inverse(T_b) @ T_a)
    assert rotation < 2.0
    assert translation < 0.1
    assert result.probability > 0.5


def run(*words):
    result = CliRunner().invoke(app, ["register", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def files(street, elsewhere, tmp_path):
    source, target, _ = street
    fields = {"intensity": np.arange(len(source), dtype=np.float32)}
    poli.write(Scan(source.astype(np.float32), fields), tmp_path / "a.pcd")
    poli.write(Scan(target.astype(np.float32)), tmp_path / "b.pcd")
    poli.write(elsewhere.keep("ring"), tmp_path / "c.pcd")
    return tmp_path


def test_the_command(street, files):
    *_, T = street
    said = run(files / "a.pcd", files / "b.pcd", "--out", files / "T.txt", "--out-cloud", files / "moved.ply").output
    found = np.loadtxt(files / "T.txt")
    rotation, translation = errors(found, T)
    assert rotation < 1.0
    assert translation < 0.3
    assert "preset: vlp16" in said
    assert " m\n" in said
    assert "probably right" in said
    assert "certified optimal for its" in said
    moved, source = poli.read(files / "moved.ply"), poli.read(files / "a.pcd")
    np.testing.assert_allclose(moved.points, source.points @ found[:3, :3].T + found[:3, 3], atol=1e-3)
    np.testing.assert_array_equal(moved.fields["intensity"], source.fields["intensity"])


def test_the_command_says_that_a_pose_is_probably_wrong(files):
    with pytest.warns(DoubtfulPose):
        told = json.loads(run(files / "a.pcd", files / "c.pcd", "--preset", "vlp16", "--json").stdout)
    assert told["probability"] < 0.5
    assert told["preset"] == "vlp16"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out-cloud", "{0}/a.pcd"), "same"),
        (("--out-cloud", "{0}/b.pcd"), "same"),
        (("--out-cloud", "-"), "standard output carries the pose"),
        (("--out-cloud", "{0}/x.ply", "--out", "{0}/x.ply"), "--out and --out-cloud are the same file"),
        (("--out-cloud", "{0}/x.strange"), "strange"),
        (("--out-cloud", "{0}/nowhere/x.ply"), "does not exist"),
    ],
)
def test_mistakes_with_the_cloud_to_write_are_found_first(files, words, message, monkeypatch):
    monkeypatch.setattr(sys.modules["poli.registration.register"], "_register_scans", lambda *_, **__: pytest.fail("searched"))
    words = [word.format(files) for word in words]
    result = CliRunner().invoke(app, ["register", str(files / "a.pcd"), str(files / "b.pcd"), *words])
    assert message in str(result.exception)
