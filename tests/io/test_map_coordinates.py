"""Clouds in map coordinates: `view`, `estimate` and `convert` center them, say the offset, and lose no precision."""

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from page_files import data_of, places
from poli.cli import app
from poli.cli.inputs import map_offset
from poli.scan import Scan

FAR = np.array([691_234.0, 5_334_567.0, 512.0])  # UTM
OFFSET = np.array([691_200.0, 5_334_600.0, 0.0])


@pytest.fixture(scope="module")
def room():
    """A floor and a wall, in meters around the origin."""
    rng = np.random.default_rng(3)
    floor = np.concatenate([rng.uniform(-8.0, 8.0, (1500, 2)), rng.normal(0.0, 0.01, (1500, 1))], axis=1)
    wall = np.stack([8.0 + rng.normal(0.0, 0.01, 500), rng.uniform(-8.0, 8.0, 500), rng.uniform(0.0, 3.0, 500)], axis=1)
    return np.concatenate([floor, wall])


@pytest.fixture
def cloud(tmp_path, room):
    poli.write(Scan(room + FAR, {"intensity": np.arange(len(room), dtype=np.float32)}), tmp_path / "utm.pcd")
    return tmp_path / "utm.pcd"


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None:
        raise result.exception
    return result.output


def test_the_offset_is_round_and_only_for_maps(room):
    np.testing.assert_array_equal(map_offset(Scan(room + FAR)), OFFSET)
    assert map_offset(Scan(room)) is None
    assert map_offset(Scan(room + [3000.0, 0.0, 0.0])) is None  # as far as a LiDAR may see
    assert map_offset(Scan(1e5 * room)) is None  # large, but around the origin
    assert map_offset(Scan(np.empty((0, 3)))) is None


def test_ellipsoids_keep_the_coordinates(tmp_path, cloud, room):
    text = run("estimate", cloud, tmp_path / "field.npz")
    assert "centered at (691200, 5334600, 0)" in text
    assert "--merged" in text
    field = poli.Ellipsoids.load(tmp_path / "field.npz")
    here = poli.estimate(room + FAR - OFFSET, merged=True, warn=False)
    np.testing.assert_allclose(field.means, room + FAR, atol=1e-8)
    np.testing.assert_allclose(field.covariances, here.covariances, rtol=1e-6, atol=1e-12)
    assert field.normals[:1500, 2].min() > 0.0  # of the floor: up


def test_splats_are_relative_to_the_offset(tmp_path, cloud, room):
    text = run("estimate", cloud, tmp_path / "splat.ply", "--output", "splat", "--model", "pca")
    assert "relative to (691200, 5334600, 0)" in text
    splats = poli.read(tmp_path / "splat.ply")
    np.testing.assert_allclose(splats.points + OFFSET, room + FAR, atol=1e-4)


@pytest.mark.parametrize("ending", ["pcd", "ply", "npz", "csv"])
def test_converted_files_keep_the_coordinates(tmp_path, cloud, room, ending):
    text = run("convert", cloud, tmp_path / f"out.{ending}")
    assert "8-byte floats" in text
    scan = poli.read(tmp_path / f"out.{ending}")
    np.testing.assert_allclose(scan.points, room + FAR, atol=1e-6)
    np.testing.assert_array_equal(scan.fields["intensity"], np.arange(len(room)))


@pytest.mark.parametrize(("name", "options"), [("out.bin", []), ("out.pcd", ["--center"])])
def test_four_byte_files_are_relative_to_the_offset(tmp_path, cloud, room, name, options):
    text = run("convert", cloud, tmp_path / name, *options)
    assert "relative to (691200, 5334600, 0)" in text
    scan = poli.read(tmp_path / name)
    assert scan.points.dtype == np.float32
    np.testing.assert_allclose(scan.points.astype(np.float64) + OFFSET, room + FAR, atol=1e-4)


def test_ordinary_scans_are_not_touched(tmp_path, room):
    poli.write(Scan(room), tmp_path / "scan.pcd")
    assert "offset" not in run("convert", tmp_path / "scan.pcd", tmp_path / "out.ply", "--center")
    np.testing.assert_array_equal(poli.read(tmp_path / "out.ply").points, room)


def test_the_page_shows_the_original_coordinates(tmp_path, cloud, room):
    text = run("view", cloud, "--out", tmp_path / "a.html", "--model", "pca")
    assert "centered at (691200, 5334600, 0)" in text
    data = data_of(tmp_path / "a.html")
    assert "(691200, 5334600, 0)" in data["note"]
    assert data["panels"][0]["viewpoint"] is None  # ranges are unknown
    for panel, kind in zip(data["panels"], ("points", "ellipsoids"), strict=True):
        shown = places(data, panel[kind])
        assert data["rounding"] < 0.001
        assert np.abs(shown.mean(axis=0) - (room + FAR).mean(axis=0)).max() < 1.0
    assert np.abs(places(data, data["panels"][0]["points"]) - room - FAR).max() < 0.001


def test_rounded_coordinates_are_reported(tmp_path, room):
    poli.write(Scan((room + FAR).astype(np.float32)), tmp_path / "utm.pcd")
    assert "round these coordinates to 0.5 m" in run("view", tmp_path / "utm.pcd", "--out", tmp_path / "a.html", "--model", "pca")


def test_a_folder_in_map_coordinates_is_refused(tmp_path, room):
    (tmp_path / "tiles").mkdir()
    for i in range(2):
        poli.write(Scan(room + FAR), tmp_path / "tiles" / f"{i}.pcd")
    with pytest.raises(poli.PoliError, match=r"map coordinates.*one of the files"):
        run("view", tmp_path / "tiles", "--out", tmp_path / "a.html", "--model", "pca")
