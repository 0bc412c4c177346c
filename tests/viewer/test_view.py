"""`poli view`: every kind of input, every kind of output, and refused input."""

import json
import re
import shutil
import subprocess
import sys
import webbrowser
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from odometry_runs import COUNT
from page_files import data_of, places
from pictures import read_picture
from poli import Ellipsoids
from poli.cli import app
from poli.errors import PoliError
from poli.io.datasets import write_folder
from poli.io.trajectory_files import read_kitti
from poli.scan import Scan
from poli.viewer.content import Estimates, Series, frames_of


def view(*words):
    """Run `poli view`; returns what it says."""
    result = CliRunner().invoke(app, ["view", *map(str, words)])
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.fixture
def page(tmp_path):
    """The data of the page that `poli view` writes."""

    def write(*words, options=""):
        view(*words, "--out", tmp_path / "page.html", *options.split())
        return data_of(tmp_path / "page.html")

    return write


@pytest.fixture(scope="module")
def folder(tmp_path_factory, drive, sweeps):
    """A dataset with poses, a plain folder of the same scans, and an odometry run on the first, with a map."""
    place = tmp_path_factory.mktemp("view")
    write_folder(place / "drive", "a town", sweeps, drive.poses)
    (place / "scans").mkdir()
    for i, scan in enumerate(sweeps[:5]):
        poli.write(replace(scan, stamp=None), place / "scans" / f"{i}.pcd")
    words = ["odometry", place / "drive", "--out", place / "run", "--map", place / "run" / "map.ply"]
    options = ["--voxel", "0.5", "--map-kind", "ellipsoids", "--model", "pca"]
    result = CliRunner().invoke(app, [*map(str, words), *options])
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture(scope="module")
def field(sweeps):
    return poli.pca(poli.voxels.voxel_downsample(sweeps[0], 0.5), k=16)


# --- pages


def test_a_scan(tmp_path, monkeypatch, folder, sweeps):
    monkeypatch.chdir(tmp_path)
    name = next(name for name, values in sweeps[0].fields.items() if values.ndim == 1)
    assert "0.html: Scan and POLI" in view(folder / "scans" / "0.pcd", "--color", name)
    data = data_of(tmp_path / "0.html")
    scan, ellipsoids = data["panels"]
    assert (data["title"], data["color"]) == ("0.pcd", f"field:{name}")
    assert scan["points"]["total"] == len(sweeps[0])
    cloud = poli.voxels.voxel_downsample(sweeps[0], 0.5)
    assert ellipsoids["ellipsoids"]["total"] == len(cloud)
    assert np.abs(places(data, ellipsoids["ellipsoids"]) - cloud.points).max() <= data["rounding"] + 1e-5
    view(folder / "scans" / "0.pcd")  # an earlier page of ours is overwritten


def test_a_simulated_scan_with_pca_and_the_truth(tmp_path, page, drive):
    poli.write(next(iter(drive)), tmp_path / "scan.npz")
    data = page(tmp_path / "scan.npz", options="--compare --voxel 1 --color height --theme light --sigma 1")
    assert [panel["name"] for panel in data["panels"]] == ["Scan", "PCA", "POLI", "Truth"]
    assert (data["color"], data["theme"], data["sigma"]) == ("height", "light", 1.0)
    off = [float(re.search(r"normal error ([\d.]+)°", data["panels"][i]["caption"])[1]) for i in (1, 2)]
    assert 0.0 < min(off) < 45.0
    assert data["panels"][1]["sigmaScale"] < 1.0
    assert data["panels"][3]["ellipsoids"]["directionsOnly"]


@pytest.mark.parametrize("kind", ["npz", "ply"])
def test_ellipsoid_files(tmp_path, page, field, kind):
    path = tmp_path / f"field.{kind}"
    {"npz": field.save, "ply": field.write_ply}[kind](path)
    data = page(path)
    (panel,) = data["panels"]
    assert panel["ellipsoids"]["total"] == len(field)
    assert np.abs(places(data, panel["ellipsoids"]) - field.means).max() <= data["rounding"] + 1e-4


def test_scans_of_a_folder_without_poses(page, folder, sweeps):
    (panel,) = page(folder / "scans", options="--model pca")["panels"]
    frames = panel["frames"]
    assert "timeline of 5 scans" in panel["caption"].lower()
    assert (frames["names"], frames["shareWorld"]) == ([f"Scan {i}" for i in range(5)], False)
    assert [part["points"]["count"] for part in frames["parts"]] == [len(sweep) for sweep in sweeps[:5]]
    assert min(part["ellipsoids"]["count"] for part in frames["parts"]) > 500
    assert panel["ellipsoids"] is panel["points"] is None
    panels = page(folder / "scans", options="--model pca --scans 3 --side-by-side")["panels"]
    assert [panel["name"] for panel in panels] == ["Scan 0", "Scan 2", "Scan 4"]
    assert all(panel["ellipsoids"]["total"] > 500 for panel in panels)


def test_scans_of_a_folder_with_poses_share_one_frame(page, folder, drive, field):
    data = page(folder / "drive", options="--model pca")
    (panel,) = data["panels"]
    assert panel["ellipsoids"]["total"] > 1.3 * len(field)
    assert f"{COUNT} of {COUNT} scans" in panel["caption"]
    assert [track["count"] for track in panel["tracks"]] == [COUNT]
    world = places(data, panel["ellipsoids"])
    assert np.abs(world[:, :2].mean(axis=0) - drive.poses[:, :2, 3].mean(axis=0)).max() < 30.0  # around the path, in its frame


def test_a_long_timeline_is_thinned_to_its_budget(folder):
    data = poli.dataset("poli", folder / "drive")
    rows, series = np.arange(len(data)), Series(data, Estimates("pca", 0.5), data.poses)
    all_of_it, voxel = series.thinned(rows)
    assert (voxel, all_of_it.how.size) == (None, 0.5)
    most = 200_000
    thin, voxel = series.thinned(rows, most)
    frames = list(frames_of(thin.moments(rows), voxel))
    held = sum(6 * len(frame.places) + 20 * len(frame.field) for frame in frames)
    scalars = 2 * len(frames[0].scalars) * sum(len(frame.places) + len(frame.field) for frame in frames)
    assert 0.3 * most < held + scalars < 1.2 * most


# --- two clouds


def test_two_clouds_in_one_frame(tmp_path, page, folder, drive, sweeps):
    T = np.linalg.inv(drive.poses[1]) @ drive.poses[0]
    np.savetxt(tmp_path / "pose.txt", T)
    pair = folder / "scans" / "0.pcd", folder / "scans" / "1.pcd"
    data = page(*pair, "--pose", tmp_path / "pose.txt", options="--model pca")
    points, field = data["panels"]
    assert data["color"] == "layer"
    assert [layer["name"] for layer in points["layers"]] == ["0.pcd", "1.pcd"]
    assert points["points"]["layers"] == [len(sweeps[0]), len(sweeps[1])]
    assert sum(field["ellipsoids"]["layers"]) == field["ellipsoids"]["total"]
    shown = places(data, points["points"])[: len(sweeps[0])]
    assert np.abs(shown - (sweeps[0].points @ T[:3, :3].T + T[:3, 3])).max() < 0.01


def test_samples_of_a_densified_scan_are_a_layer(tmp_path, page, folder, sweeps):
    raw = folder / "scans" / "0.pcd"
    poli.write(poli.densify(poli.read(raw), model="pca"), tmp_path / "dense.pcd")
    _, dense = page(tmp_path / "dense.pcd", "--original", raw)["panels"]
    assert [layer["name"] for layer in dense["layers"]] == ["originals", "samples"]
    assert dense["points"]["layers"][0] == len(sweeps[0])
    assert dense["points"]["layers"][1] > 0
    with pytest.raises(PoliError, match=r"first .* points of .*dense.pcd are not those of .*1.pcd"):
        page(tmp_path / "dense.pcd", "--original", folder / "scans" / "1.pcd")


# --- odometry


def test_odometry_with_its_map_and_a_timeline(page, folder, sweeps):
    data = page(folder / "run", options="--model pca --scans 3")
    (panel,) = data["panels"]
    assert panel["name"] == "Map"
    assert panel["ellipsoids"]["total"] == len(Ellipsoids.load(folder / "run" / "map.ply"))
    assert [(track["name"], track["count"]) for track in panel["tracks"]] == [("estimate", COUNT), ("truth", COUNT)]
    frames = panel["frames"]
    assert (frames["names"], frames["shareWorld"]) == (["Scan 0", "Scan 4", f"Scan {COUNT - 1}"], True)
    T = read_kitti(folder / "run" / "poses_kitti.txt")[4]
    kept = sweeps[4].clean().points
    kept = kept[np.linalg.norm(kept, axis=1) <= 120.0]
    assert np.abs(places(data, frames["parts"][1]["points"]) - (kept @ T[:3, :3].T + T[:3, 3])).max() < 0.01
    np.testing.assert_allclose(frames["positions"][1], T[:3, 3] - data["origin"], atol=1e-6)
    assert page(folder / "run", options="--scans 0")["panels"][0]["frames"] is None


def test_odometry_with_a_map_of_points(tmp_path, page, folder, monkeypatch):
    words = ["odometry", str(folder / "drive"), "--voxel", "0.5", "--model", "pca", "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, [*words, "--map", str(tmp_path / "points.ply")]).exit_code == 0
    data = page(tmp_path / "run")
    (panel,) = data["panels"]
    cloud = poli.read(tmp_path / "points.ply")
    assert (panel["name"], panel["points"]["total"], data["color"]) == ("Map", len(cloud), "height")
    assert np.abs(places(data, panel["points"]) - cloud.points).max() <= data["rounding"] + 1e-4
    monkeypatch.setattr("poli.viewer.page.MOST_POINTS", 1000)
    data = page(tmp_path / "run", options="--color normal")
    (panel,) = data["panels"]
    assert 500 < panel["points"]["total"] <= 1000
    assert re.search(rf"{len(cloud):,} points; drawn: one per voxel of [\d.]+ m", panel["caption"])
    assert data["color"] == "normal"
    poli.write(cloud.select(np.arange(10)), tmp_path / "points.ply")  # by another run
    text = view(tmp_path / "run", "--out", tmp_path / "a.html", "--model", "pca", "--scans", "2")
    assert "points.ply, was removed or overwritten" in text
    assert data_of(tmp_path / "a.html")["panels"][0]["name"] == "World"


def test_odometry_without_a_map_or_without_its_scans(tmp_path, page, folder):
    shutil.copytree(folder / "run", tmp_path / "run")
    (tmp_path / "run" / "map.ply").unlink()
    (panel,) = page(tmp_path / "run", options="--model pca --scans 3")["panels"]
    assert panel["name"] == "World"
    assert f"3 of {COUNT} scans" in panel["caption"]
    assert panel["ellipsoids"]["total"] > 500
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["data"]["path"] = str(tmp_path / "gone")
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    assert re.search("showing only the path.*gone", view(tmp_path / "run", "--out", tmp_path / "a.html"))
    (panel,) = data_of(tmp_path / "a.html")["panels"]
    assert (panel["name"], panel["ellipsoids"]) == ("Path", None)


# --- pictures, recordings and browsers


@pytest.mark.parametrize("what", ["scans/0.pcd", "scans", "run"])
def test_pictures(tmp_path, folder, what):
    assert "a.png" in view(folder / what, "--png", tmp_path / "a.png", "--model", "pca")
    image = read_picture(tmp_path / "a.png")
    assert image.shape == (900, 1600, 3)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 200
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]  # and no page, which was not requested


def test_the_browser_is_opened_on_request(tmp_path, monkeypatch, field):
    field.save(tmp_path / "f.npz")
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url))  # and finds none
    view(tmp_path / "f.npz", "--out", tmp_path / "a.html")
    assert asked == []
    assert "manually" in view(tmp_path / "f.npz", "--out", tmp_path / "a.html", "--open")
    assert asked == [(tmp_path / "a.html").as_uri()]


def recorded(path):
    """Rows of each entity of a recording, read by rerun."""
    done = subprocess.run([sys.executable, "-m", "rerun", "rrd", "print", str(path)], capture_output=True, text=True, check=True)
    rows: dict[str, int] = {}
    for count, entity in re.findall(r"with (\d+) rows .*? - (/\S+) - ", done.stdout):
        rows[entity] = rows.get(entity, 0) + int(count)
    return rows


def test_recordings(tmp_path, folder, field):
    pytest.importorskip("rerun")
    assert f"{COUNT} scans" in view(folder / "drive", "--out", tmp_path / "a.rrd", "--model", "pca")
    rows = recorded(tmp_path / "a.rrd")
    for entity in ("/world/scan", "/world/scan/points", "/world/scan/ellipsoids"):
        assert rows[entity] == COUNT
    view(folder / "run", "--out", tmp_path / "a.rrd", "--model", "pca", "--scans", "2")
    rows = recorded(tmp_path / "a.rrd")
    assert rows["/world/scan/ellipsoids"] == 2
    assert {"/world/tracks/0_estimate", "/world/tracks/1_truth"} <= set(rows)
    field.save(tmp_path / "f.npz")
    view(tmp_path / "f.npz", "--out", tmp_path / "a.rrd")
    rows = recorded(tmp_path / "a.rrd")
    assert rows["/panel_0_Ellipsoids/ellipsoids"] == rows["/panel_0_Ellipsoids/points"] == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.rrd", "f.npz"]


def test_the_live_viewer(tmp_path, monkeypatch, field):
    rerun = pytest.importorskip("rerun")
    field.save(tmp_path / "f.npz")
    started = []

    def spawn(stream):
        started.append(stream)
        if len(started) > 1:
            raise RuntimeError("no viewer here")

    monkeypatch.setattr(rerun.RecordingStream, "spawn", spawn)
    monkeypatch.chdir(tmp_path)
    view("f.npz", "--rerun")
    assert len(started) == 1
    with pytest.raises(PoliError, match=r"does not start: no viewer here; write a recording instead"):
        view("f.npz", "--rerun")
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(PoliError, match=r"poli\[view\]"):
        view("f.npz", "--out", "a.rrd")
    assert [file.name for file in tmp_path.iterdir()] == ["f.npz"]


# --- refused input


def test_bad_inputs_are_named(tmp_path, monkeypatch, folder, field):
    monkeypatch.chdir(tmp_path)
    field.save("f.npz")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.md").write_text("no scan")
    (tmp_path / "f.html").write_text("a page of someone else's")
    (tmp_path / "bad.txt").write_text("1 2 3")
    poli.write(Scan(np.random.default_rng(0).random((200, 3))), "small.pcd")
    before = sorted(tmp_path.iterdir())
    scan, other = folder / "scans" / "0.pcd", folder / "scans" / "1.pcd"
    for arguments, message in (
        (["gone.pcd"], "gone.pcd: no such file or folder"),
        (["notes.md"], "notes.md: not a known ending"),
        (["empty"], "the folder is empty"),
        (["f.npz"], "f.html: already exists.*--out"),
        ([scan, "--out", "a.txt"], "--out a.txt: write a page as .html"),
        ([scan, "--png", "a.jpg"], "--png a.jpg"),
        ([scan, "--png", "a.png", "--open"], "--open: no page is written"),
        ([scan, "--compare", "--model", "pca"], "--compare: .*PCA.*--model"),
        ([scan, "--model", "nothing"], "expected one of lidar, objects"),
        (["f.npz", "--compare", "--out", "a.html"], "holds ellipsoids, not a scan"),
        ([folder / "drive", "--compare"], "only one scan can be compared"),
        ([folder / "run", "--compare"], "only one scan can be compared"),
        ([scan, other, "--compare"], "only one scan can be compared"),
        ([scan, other, "--pose", "gone.txt"], "gone.txt: no such file"),
        ([scan, other, "--pose", "bad.txt"], "not a 4x4 or 3x4 matrix"),
        ([scan, "--pose", "bad.txt"], "give the second one"),
        ([scan, other, "--original", scan], "--original .*: cannot be combined"),
        (["small.pcd"], r"small.pcd: \d+ points are left of 200 at voxels of 0.5 m; choose smaller"),
        (["f.npz", "--out", "a.html", "--color", "own"], "no panel has colors"),
        ([scan, "--model", "pca", "--color", "red"], "color is 'red'; expected one of normal.*or a field: "),
        (["f.npz", "--out", "no/a.html"], "the folder no does not exist"),
    ):
        with pytest.raises(PoliError, match=message):
            view(*arguments)
    assert sorted(tmp_path.iterdir()) == before
    view("small.pcd", "--model", "objects")
    assert data_of(tmp_path / "small.html")["panels"][1]["ellipsoids"]["total"] == 200
