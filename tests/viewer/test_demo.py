"""One real run of `poli demo`, and tests of its parts."""

import json
import re
import shlex
import subprocess
import sys
from importlib.resources import as_file, files

import numpy as np
import pytest

import poli
from pictures import drawn_share, read_picture
from poli.cli.demo import next_commands
from poli.errors import FormatError
from poli.io.trajectory_files import read_tum
from poli.viewer.demo import run_demo
from poli.viewer.demo.drive import Driven
from poli.viewer.demo.pictures import drive_picture
from poli.viewer.demo.town import SENSOR, STEP, embedded_scans, pack, simulated_scans, unpack

PICTURES = ("points.png", "pca.png", "poli.png", "truth.png", "densified.png", "registered.png", "trajectory.png")


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "poli", *arguments], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Its output, its folder, and its metrics."""
    out = tmp_path_factory.mktemp("demo") / "some where" / "out"
    done = run("demo", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return done.stdout, out, json.loads((out / "summary.json").read_text())


@pytest.fixture(scope="module")
def simulated():
    return simulated_scans()


def test_the_folder_contains_exactly_the_named_files(demo):
    text, out, summary = demo
    assert sorted(path.name for path in out.iterdir()) == sorted(summary["files"])
    for name in summary["files"]:
        assert name in text
    assert str(out / "index.html") in text


def test_every_picture_shows_something_different(demo):
    images = {name: read_picture(demo[1] / name) for name in PICTURES}
    for name, image in images.items():
        assert image.shape[1] >= 1200, name
        assert drawn_share(image) > 0.01, name
    assert len({image.tobytes() for image in images.values()}) == len(PICTURES)
    # Ellipsoids cover the ground between points, and samples cover more than returns.
    assert drawn_share(images["poli.png"]) > 2.0 * drawn_share(images["points.png"])
    assert drawn_share(images["densified.png"]) > drawn_share(images["points.png"])


def test_the_table_fits_eighty_columns(demo):
    text, _, summary = demo
    table = text[: text.index("POLI's median error")]
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= 80
    for figure in (f"{summary['normals']['poli']['median']:.1f}°", f"{summary['normals']['pca']['median']:.1f}°", "yes"):
        assert figure in table


def test_metrics_are_as_promised(demo):
    summary = demo[2]
    normals, density, pair, drive = (summary[step] for step in ("normals", "density", "pair", "drive"))
    assert normals["poli"]["median"] < 0.8 * normals["pca"]["median"]
    assert normals["poli"]["within_10"] > normals["pca"]["within_10"] + 0.04
    assert normals["poli"]["rmse"] < normals["pca"]["rmse"]
    assert summary["median_normal_error_lower"] == pytest.approx(1 - normals["poli"]["median"] / normals["pca"]["median"])
    assert density["samples"] > 0.3 * density["returns"]
    assert 0.003 < density["returns_median"] < density["samples_median"] < 0.03
    assert pair["apart"] == pytest.approx(10.0, abs=0.1)
    assert pair["poli"]["certified"]
    assert pair["poli"]["rotation"] < 1.0
    assert pair["poli"]["translation"] < 0.3
    assert drive["scans"] == 40
    assert drive["path"] == pytest.approx(31.0, abs=1.0)
    assert drive["poli"]["drift"] < 0.01
    assert drive["poli"]["step_translation"] < drive["pca"]["step_translation"]
    assert summary["seconds"] > 0


def test_files_read_back(demo):
    _, out, summary = demo
    scan, dense, turned = (poli.read(out / name) for name in ("scan.ply", "densified.ply", "scan_turned.ply"))
    assert {"ring", "time", "intensity"} <= set(scan.fields)
    np.testing.assert_array_equal(dense.points[: len(scan)], scan.points)
    assert len(dense) == summary["density"]["returns"] + summary["density"]["samples"]
    assert len(turned) == len(embedded_scans().other)
    stamps, poses = read_tum(out / "poses_tum.txt")
    true_stamps, truth = read_tum(out / "truth_tum.txt")
    np.testing.assert_array_equal(stamps, true_stamps)
    np.testing.assert_allclose(np.diff(stamps), 1e8)
    off = np.linalg.norm(poses[-1, :3, 3] - truth[-1, :3, 3])
    assert off == pytest.approx(summary["drive"]["poli"]["end"], rel=1e-6)


def test_the_page_is_self_contained(demo):
    page = (demo[1] / "index.html").read_text()
    for outside in (
        r"<script[^>]+src=",
        r"<link[^>]+href=[\"'](?!data:)",
        r"<img",
        r"@import",
        r"url\((?![\"']?data:)",
        r"fetch\(",
    ):
        assert not re.search(outside, page), outside
    assert "default-src 'none'" in page
    data = json.loads(re.search(r'<script type="application/json" id="poli-data">(.*?)</script>', page, re.DOTALL)[1])
    assert [panel["name"] for panel in data["panels"]] == ["Points", "PCA", "POLI", "Truth"]
    assert data["panels"][1]["sigmaScale"] < 0.5  # and the caption says so
    assert "drawn smaller" in data["panels"][1]["caption"]
    assert data["panels"][3]["ellipsoids"]["total"] == demo[2]["normals"]["judged"]


def test_the_suggested_commands_work(demo, tmp_path):
    text, out, _ = demo
    commands = next_commands(out)
    assert len(commands) == 3
    assert all(command in text for command in commands)
    view = shlex.split(commands[0])[1:]
    view.remove("--open")
    done = run(*view, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "scan.html").read_text()
    data = json.loads(re.search(r'<script type="application/json" id="poli-data">(.*?)</script>', page, re.DOTALL)[1])
    assert [panel["name"] for panel in data["panels"]] == ["Scan", "PCA", "POLI"]
    done = run(*shlex.split(commands[1])[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    T = np.array([line.split() for line in done.stdout.splitlines()[:4]], float)
    assert np.linalg.norm(T[:2, 3]) == pytest.approx(10.0, abs=0.3)


def test_an_interrupted_run_leaves_only_complete_files(tmp_path):
    def interrupt(what, share):
        if share > 0.2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_demo(tmp_path, interrupt)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"scan.ply", "splats.ply", "points.png", "pca.png", "poli.png", "truth.png", "index.html"}
    assert len(poli.read(tmp_path / "scan.ply")) == len(embedded_scans().scan)


def test_an_unwritable_folder_is_detected_at_once(tmp_path):
    (tmp_path / "taken").write_text("")
    for out in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(FormatError, match=r"cannot be created: .*give another folder"):
            run_demo(out, lambda *_: pytest.fail("it began to work"))
    (tmp_path / "blocked" / "scan.ply").mkdir(parents=True)
    with pytest.raises(FormatError, match=r"scan\.ply: this is a folder"):
        run_demo(tmp_path / "blocked", lambda *_: pytest.fail("it began to work"))


def test_the_shipped_scans_match_the_simulator(simulated):
    with as_file(files("poli.viewer.demo") / "town.npz") as path:
        assert path.stat().st_size < 400_000
        with np.load(path, allow_pickle=False) as archive:
            shipped = {name: archive[name] for name in archive.files}
    made = pack(simulated, SENSOR)
    assert made.keys() == shipped.keys()
    for name, values in made.items():
        assert values.dtype == shipped[name].dtype
        assert values.shape == shipped[name].shape
        # Another CPU may round a ray past an edge.
        assert np.isclose(values.astype(float), shipped[name].astype(float), rtol=1e-9, atol=1.0).mean() > 0.999, name
    np.testing.assert_allclose(made["T_world_sensor"], shipped["T_world_sensor"], atol=1e-6)


def test_packing_keeps_a_scan_within_one_step(simulated):
    back = unpack(pack(simulated, SENSOR))
    assert np.linalg.norm(back.scan.points - simulated.scan.points, axis=1).max() < STEP
    assert np.abs(back.scan.fields["normal"] - simulated.scan.fields["normal"]).max() < 1e-4
    for name in ("ring", "time", "label", "mixed"):
        np.testing.assert_allclose(back.scan.fields[name], simulated.scan.fields[name], atol=1e-6)
    np.testing.assert_allclose(back.T_scan_other, simulated.T_scan_other)


def test_the_estimated_trajectory_is_drawn_over_the_true_one():
    poses = np.tile(np.eye(4), (10, 1, 1))
    poses[:, 0, 3] = np.arange(10)
    ground = poli.Ellipsoids(np.array([[4.0, 0.0, -1.8]]), np.diag([9.0, 9.0, 1e-4])[None])
    image = drive_picture(Driven(tuple(range(10)), poses, poses, poses, ground)).astype(int)
    blue = (image[..., 2] > image[..., 0] + 60).sum()
    gray = (np.ptp(image, axis=2) < 25) & (image.max(axis=2) < 130)
    assert blue > 500
    assert gray.sum() > 500
