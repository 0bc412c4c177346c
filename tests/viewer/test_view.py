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
from page_files import array, data_of, places
from pictures import read_picture
from poli import Ellipsoids
from poli.cli import app
from poli.ellipsoids.files import read_splat
from poli.errors import FormatError, PoliError
from poli.io.datasets import write_folder
from poli.io.trajectory_files import read_kitti
from poli.scan import Scan
from poli.viewer.content import Estimates, Series, frames_of


def view(*arguments):
    result = CliRunner().invoke(app, ["view", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory, drive, sweeps):
    """A dataset with poses, a plain folder of the same scans, and an odometry run on the first, with a map."""
    place = tmp_path_factory.mktemp("view")
    write_folder(place / "drive", "a town", sweeps, drive.poses)
    (place / "scans").mkdir()
    for i, scan in enumerate(sweeps[:5]):
        poli.write(replace(scan, stamp=None), place / "scans" / f"{i}.pcd")
    result = CliRunner().invoke(
        app,
        [
            "odometry",
            str(place / "drive"),
            "--voxel",
            "0.5",
            "--out",
            str(place / "run"),
            "--map",
            str(place / "run" / "map.ply"),
            "--map-kind",
            "ellipsoids",
            "--model",
            "pca",
        ],
    )
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture(scope="module")
def field(sweeps):
    return poli.pca(poli.voxels.voxel_downsample(sweeps[0], 0.5), k=16)


# --- pages


def test_a_scan(tmp_path, monkeypatch, folder, sweeps):
    monkeypatch.chdir(tmp_path)
    text = view(folder / "scans" / "0.pcd")
    assert "0.html: Scan and POLI" in text
    data = data_of(tmp_path / "0.html")
    scan, ellipsoids = data["panels"]
    assert data["title"] == "0.pcd"
    assert scan["points"]["total"] == len(sweeps[0])
    cloud = poli.voxels.voxel_downsample(sweeps[0], 0.5)
    assert ellipsoids["ellipsoids"]["total"] == len(cloud)
    assert np.abs(places(data, ellipsoids["ellipsoids"]) - cloud.points).max() <= data["rounding"] + 1e-5
    view(folder / "scans" / "0.pcd")  # an earlier page of ours is overwritten


def test_a_simulated_scan_with_pca_and_the_truth(tmp_path, drive):
    scan = next(iter(drive))
    poli.write(scan, tmp_path / "scan.npz")
    view(
        tmp_path / "scan.npz",
        "--compare",
        "--voxel",
        "1",
        "--out",
        tmp_path / "a.html",
        "--color",
        "height",
        "--theme",
        "light",
        "--sigma",
        "1",
    )
    data = data_of(tmp_path / "a.html")
    assert [panel["name"] for panel in data["panels"]] == ["Scan", "PCA", "POLI", "Truth"]
    assert (data["color"], data["theme"], data["sigma"]) == ("height", "light", 1.0)
    off = [float(re.search(r"normal error ([\d.]+)°", data["panels"][i]["caption"])[1]) for i in (1, 2)]
    assert 0.0 < min(off) < 45.0
    assert data["panels"][1]["sigmaScale"] < 1.0
    assert data["panels"][3]["ellipsoids"]["directionsOnly"]


@pytest.mark.parametrize("kind", ["npz", "ply", "splat"])
def test_ellipsoid_files(tmp_path, field, kind):
    path = tmp_path / f"field.{'npz' if kind == 'npz' else 'ply'}"
    {"npz": field.save, "ply": field.write_ply, "splat": field.write_splat}[kind](path)
    view(path, "--out", tmp_path / "a.html", *(["--color", "own"] if kind == "splat" else []))
    data = data_of(tmp_path / "a.html")
    (panel,) = data["panels"]
    assert panel["ellipsoids"]["total"] == len(field)
    assert (panel["ellipsoids"]["color"] is not None) == (kind == "splat")
    assert np.abs(places(data, panel["ellipsoids"]) - field.means).max() <= data["rounding"] + 1e-4


def test_scans_of_a_folder_without_poses_are_side_by_side(tmp_path, folder):
    view(folder / "scans", "--out", tmp_path / "a.html", "--model", "pca", "--scans", "3", "--side-by-side")
    data = data_of(tmp_path / "a.html")
    assert [panel["name"] for panel in data["panels"]] == ["Scan 0", "Scan 2", "Scan 4"]
    assert all(panel["ellipsoids"]["total"] > 500 for panel in data["panels"])


def test_scans_of_a_folder_without_poses_have_a_timeline(tmp_path, folder, sweeps):
    text = view(folder / "scans", "--out", tmp_path / "a.html", "--model", "pca")
    assert "timeline of 5 scans" in text
    (panel,) = data_of(tmp_path / "a.html")["panels"]
    frames = panel["frames"]
    assert (frames["names"], frames["shareWorld"]) == ([f"Scan {i}" for i in range(5)], False)
    assert [part["points"]["count"] for part in frames["parts"]] == [len(sweep) for sweep in sweeps[:5]]
    assert min(part["ellipsoids"]["count"] for part in frames["parts"]) > 500
    assert panel["ellipsoids"] is panel["points"] is None


def test_the_timeline_of_a_drive_is_in_the_world(tmp_path, folder, drive, sweeps):
    view(folder / "run", "--out", tmp_path / "a.html", "--model", "pca", "--scans", "3")
    data = data_of(tmp_path / "a.html")
    (panel,) = data["panels"]
    frames = panel["frames"]
    assert (frames["names"], frames["shareWorld"], panel["name"]) == (["Scan 0", "Scan 4", f"Scan {COUNT - 1}"], True, "Map")
    shown = places(data, frames["parts"][1]["points"])
    T = read_kitti(folder / "run" / "poses_kitti.txt")[4]
    kept = sweeps[4].clean().points
    kept = kept[np.linalg.norm(kept, axis=1) <= 120.0]
    assert np.abs(shown - (kept @ T[:3, :3].T + T[:3, 3])).max() < 0.01
    np.testing.assert_allclose(frames["positions"][1], T[:3, 3] - data["origin"], atol=1e-6)
    view(folder / "run", "--out", tmp_path / "a.html", "--scans", "0")
    assert data_of(tmp_path / "a.html")["panels"][0]["frames"] is None


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


def test_two_clouds_in_one_frame(tmp_path, folder, drive, sweeps):
    T = np.linalg.inv(drive.poses[1]) @ drive.poses[0]
    np.savetxt(tmp_path / "pose.txt", T)
    pair = folder / "scans" / "0.pcd", folder / "scans" / "1.pcd"
    view(*pair, "--pose", tmp_path / "pose.txt", "--out", tmp_path / "a.html", "--model", "pca")
    data = data_of(tmp_path / "a.html")
    points, field = data["panels"]
    assert data["color"] == "layer"
    assert [layer["name"] for layer in points["layers"]] == ["0.pcd", "1.pcd"]
    assert points["points"]["layers"] == [len(sweeps[0]), len(sweeps[1])]
    assert sum(field["ellipsoids"]["layers"]) == field["ellipsoids"]["total"]
    shown = places(data, points["points"])[: len(sweeps[0])]
    assert np.abs(shown - (sweeps[0].points @ T[:3, :3].T + T[:3, 3])).max() < 0.01
    (tmp_path / "bad.txt").write_text("1 2 3")
    for arguments, message in (
        ([*pair, "--pose", tmp_path / "gone.txt"], "gone.txt: no such file"),
        ([*pair, "--pose", tmp_path / "bad.txt"], "3 numbers; expected a 4x4 or 3x4 matrix"),
        ([pair[0], "--pose", tmp_path / "pose.txt"], "give the second one"),
        ([*pair, "--original", pair[0]], "--original .*: cannot be combined"),
        ([*pair, "--compare"], "only one scan can be compared"),
    ):
        with pytest.raises(PoliError, match=message):
            view(*arguments, "--out", tmp_path / "b.html")


def test_samples_of_a_densified_scan_are_a_layer(tmp_path, folder, sweeps):
    raw = folder / "scans" / "0.pcd"
    poli.write(poli.densify(poli.read(raw), model="pca"), tmp_path / "dense.pcd")
    view(tmp_path / "dense.pcd", "--original", raw, "--out", tmp_path / "a.html")
    data = data_of(tmp_path / "a.html")
    _, dense = data["panels"]
    assert [layer["name"] for layer in dense["layers"]] == ["originals", "samples"]
    assert dense["points"]["layers"][0] == len(sweeps[0])
    assert dense["points"]["layers"][1] > 0
    with pytest.raises(PoliError, match=r"first .* points of .*dense.pcd are not those of .*1.pcd"):
        view(tmp_path / "dense.pcd", "--original", folder / "scans" / "1.pcd", "--out", tmp_path / "a.html")


def test_fields_are_shown_and_can_be_the_initial_color(tmp_path, folder, sweeps):
    name = next(name for name, values in sweeps[0].fields.items() if values.ndim == 1)
    view(folder / "scans" / "0.pcd", "--out", tmp_path / "a.html", "--model", "pca", "--color", name)
    data = data_of(tmp_path / "a.html")
    assert data["color"] == f"field:{name}"
    field = next(field for field in data["fields"] if field["name"] == name)
    codes = array(data["panels"][0]["points"]["scalars"][name], "<u2", 1)[:, 0]
    assert np.abs(field["start"] + field["step"] * codes - sweeps[0].fields[name]).max() <= field["step"]
    with pytest.raises(PoliError, match=f"color is 'red'; expected one of normal.*or a field: .*{name}"):
        view(folder / "scans" / "0.pcd", "--out", tmp_path / "a.html", "--model", "pca", "--color", "red")


def test_scans_of_a_folder_with_poses_share_one_frame(tmp_path, folder, drive, field):
    view(folder / "drive", "--out", tmp_path / "a.html", "--model", "pca")
    data = data_of(tmp_path / "a.html")
    (panel,) = data["panels"]
    assert panel["ellipsoids"]["total"] > 1.3 * len(field)
    assert f"{COUNT} of {COUNT} scans" in panel["caption"]
    (track,) = panel["tracks"]
    assert track["count"] == COUNT
    world = places(data, panel["ellipsoids"])
    assert np.abs(world[:, :2].mean(axis=0) - drive.poses[:, :2, 3].mean(axis=0)).max() < 30.0  # around the path, in its frame


def test_odometry_with_its_map(tmp_path, folder):
    view(folder / "run", "--out", tmp_path / "a.html")
    (panel,) = data_of(tmp_path / "a.html")["panels"]
    assert panel["name"] == "Map"
    assert panel["ellipsoids"]["total"] == len(Ellipsoids.load(folder / "run" / "map.ply"))
    assert [(track["name"], track["count"]) for track in panel["tracks"]] == [("estimate", COUNT), ("truth", COUNT)]


def test_odometry_with_a_map_of_points(tmp_path, folder, monkeypatch):
    words = ["odometry", str(folder / "drive"), "--voxel", "0.5", "--model", "pca", "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, [*words, "--map", str(tmp_path / "points.ply")]).exit_code == 0
    view(tmp_path / "run", "--out", tmp_path / "a.html")
    data = data_of(tmp_path / "a.html")
    (panel,) = data["panels"]
    cloud = poli.read(tmp_path / "points.ply")
    assert (panel["name"], panel["points"]["total"], data["color"]) == ("Map", len(cloud), "height")
    assert np.abs(places(data, panel["points"]) - cloud.points).max() <= data["rounding"] + 1e-4
    assert [track["count"] for track in panel["tracks"]] == [COUNT, COUNT]

    monkeypatch.setattr("poli.viewer.page.MOST_POINTS", 1000)
    view(tmp_path / "run", "--out", tmp_path / "a.html", "--color", "normal")
    data = data_of(tmp_path / "a.html")
    (panel,) = data["panels"]
    assert 500 < panel["points"]["total"] <= 1000
    assert re.search(rf"{len(cloud):,} points; drawn: one per voxel of [\d.]+ m", panel["caption"])
    assert data["color"] == "normal"

    poli.write(cloud.select(np.arange(10)), tmp_path / "points.ply")  # by another run
    text = view(tmp_path / "run", "--out", tmp_path / "a.html", "--model", "pca", "--scans", "2")
    assert "points.ply, was removed or overwritten" in text
    assert data_of(tmp_path / "a.html")["panels"][0]["name"] == "World"


def test_odometry_without_a_map_or_without_its_scans(tmp_path, folder):
    shutil.copytree(folder / "run", tmp_path / "run")
    (tmp_path / "run" / "map.ply").unlink()
    view(tmp_path / "run", "--out", tmp_path / "a.html", "--model", "pca", "--scans", "3")
    (panel,) = data_of(tmp_path / "a.html")["panels"]
    assert panel["name"] == "World"
    assert f"3 of {COUNT} scans" in panel["caption"]
    assert panel["ellipsoids"]["total"] > 500

    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["data"]["path"] = str(tmp_path / "gone")
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    text = view(tmp_path / "run", "--out", tmp_path / "a.html")
    assert "showing only the path" in text
    assert "gone" in text
    (panel,) = data_of(tmp_path / "a.html")["panels"]
    assert panel["name"] == "Path"
    assert panel["ellipsoids"] is None


def test_the_browser_is_opened_on_request(tmp_path, monkeypatch, field):
    field.save(tmp_path / "f.npz")
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url) or True)
    view(tmp_path / "f.npz", "--out", tmp_path / "a.html")
    assert asked == []
    view(tmp_path / "f.npz", "--out", tmp_path / "a.html", "--open")
    assert asked == [(tmp_path / "a.html").as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert "manually" in view(tmp_path / "f.npz", "--out", tmp_path / "a.html", "--open")


# --- pictures and recordings


@pytest.mark.parametrize("what", ["scans/0.pcd", "scans", "run"])
def test_pictures(tmp_path, folder, what):
    text = view(folder / what, "--png", tmp_path / "a.png", "--model", "pca")
    assert "a.png" in text
    image = read_picture(tmp_path / "a.png")
    assert image.shape == (900, 1600, 3)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 200
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]  # and no page, which was not requested


def recorded(path):
    """Rows of each entity of a recording, read by rerun."""
    done = subprocess.run([sys.executable, "-m", "rerun", "rrd", "print", str(path)], capture_output=True, text=True, check=True)
    rows: dict[str, int] = {}
    for count, entity in re.findall(r"with (\d+) rows .*? - (/\S+) - ", done.stdout):
        rows[entity] = rows.get(entity, 0) + int(count)
    return rows


def test_a_recording_of_a_drive_is_a_time_series(tmp_path, folder):
    pytest.importorskip("rerun")
    assert f"{COUNT} scans" in view(folder / "drive", "--out", tmp_path / "a.rrd", "--model", "pca")
    rows = recorded(tmp_path / "a.rrd")
    for entity in ("/world/scan", "/world/scan/points", "/world/scan/ellipsoids"):
        assert rows[entity] == COUNT
    view(folder / "run", "--out", tmp_path / "b.rrd", "--model", "pca", "--scans", "2")
    rows = recorded(tmp_path / "b.rrd")
    assert rows["/world/scan/ellipsoids"] == 2
    assert {"/world/tracks/0_estimate", "/world/tracks/1_truth"} <= set(rows)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.rrd", "b.rrd"]


def test_a_recording_of_a_field(tmp_path, field):
    pytest.importorskip("rerun")
    field.save(tmp_path / "f.npz")
    view(tmp_path / "f.npz", "--out", tmp_path / "a.rrd")
    rows = recorded(tmp_path / "a.rrd")
    assert rows["/panel_0_Ellipsoids/ellipsoids"] == rows["/panel_0_Ellipsoids/points"] == 1


def test_the_live_viewer_opens_on_request(tmp_path, monkeypatch, field):
    rerun = pytest.importorskip("rerun")
    field.save(tmp_path / "f.npz")
    started = []
    monkeypatch.setattr(rerun.RecordingStream, "spawn", lambda stream: started.append(stream))
    monkeypatch.chdir(tmp_path)
    view("f.npz", "--rerun")
    assert len(started) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["f.npz"]

    def fails(stream):
        raise RuntimeError("no viewer here")

    monkeypatch.setattr(rerun.RecordingStream, "spawn", fails)
    with pytest.raises(PoliError, match=r"does not start: no viewer here; write a recording instead"):
        view("f.npz", "--rerun")


def test_without_rerun_the_extra_is_named(tmp_path, monkeypatch, field):
    field.save(tmp_path / "f.npz")
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(PoliError, match=r"poli\[view\]"):
        view(tmp_path / "f.npz", "--out", tmp_path / "a.rrd")
    assert not (tmp_path / "a.rrd").exists()


# --- splats


def test_splats_round_trip(tmp_path, field):
    field.write_splat(tmp_path / "s.ply")
    found, colors = read_splat(tmp_path / "s.ply")
    np.testing.assert_allclose(found.means, field.means, atol=1e-4)
    np.testing.assert_allclose(found.covariances, field.covariances, atol=1e-5 * np.abs(field.covariances).max())
    unique = field.eigenvalues[:, 1] > 1.5 * field.eigenvalues[:, 0]
    assert np.einsum("ij,ij->i", found.normals, field.normals)[unique].min() > 0.999
    np.testing.assert_allclose(colors, 0.5 + 0.5 * field.normals, atol=1e-5)


def test_a_file_that_is_not_a_splat(tmp_path, field):
    field.write_ply(tmp_path / "f.ply")
    with pytest.raises(FormatError, match="no property 'scale_0'"):
        read_splat(tmp_path / "f.ply")
    field.write_splat(tmp_path / "s.ply")
    raw = bytearray((tmp_path / "s.ply").read_bytes())
    raw[-16:] = bytes(16)  # the last quaternion
    (tmp_path / "s.ply").write_bytes(raw)
    with pytest.raises(FormatError, match=f"1 splats .*, the first is row {len(field) - 1}"):
        view(tmp_path / "s.ply", "--out", tmp_path / "a.html")


# --- refused input


def test_bad_inputs_are_named(tmp_path, monkeypatch, folder, field):
    monkeypatch.chdir(tmp_path)
    field.save("f.npz")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.md").write_text("no scan")
    (tmp_path / "f.html").write_text("a page of someone else's")
    poli.write(Scan(np.random.default_rng(0).random((200, 3))), "small.pcd")
    scan = folder / "scans" / "0.pcd"
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
        (["small.pcd"], r"small.pcd: \d+ points are left of 200 at voxels of 0.5 m; choose smaller"),
        (["f.npz", "--out", "a.html", "--color", "own"], "no panel has colors"),
        (["f.npz", "--out", "no/a.html"], "the folder no does not exist"),
    ):
        with pytest.raises(PoliError, match=message):
            view(*arguments)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty", "f.html", "f.npz", "notes.md", "small.pcd"]
    view("small.pcd", "--model", "objects")
    assert data_of(tmp_path / "small.html")["panels"][1]["ellipsoids"]["total"] == 200


def test_a_damaged_run_is_named(tmp_path, folder):
    shutil.copytree(folder / "run", tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(FormatError, match="not written by `poli odometry`"):
        view(tmp_path / "run", "--out", tmp_path / "a.html")
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(FormatError, match="JSON"):
        view(tmp_path / "run", "--out", tmp_path / "a.html")
    shutil.copy(folder / "run" / "config.json", tmp_path / "run")
    (tmp_path / "run" / "poses_kitti.txt").write_text("")
    with pytest.raises(PoliError, match="no poses to show"):
        view(tmp_path / "run", "--out", tmp_path / "a.html")
