"""Where the output of a command goes: `--json`, `--quiet`, pipes, progress, Ctrl-C, and Tab completion."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import poli
from poli.cli import main
from poli.io.datasets import write_kitti
from poli.scan import Scan
from poli.worlds.shapes import procedural_mesh
from tiny_scans import room

POLI = (sys.executable, "-m", "poli")


@pytest.fixture
def call(tmp_path, monkeypatch, capsysbinary):
    """Run a command in a separate folder; returns what it wrote to stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words, stdin=b""):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        told = capsysbinary.readouterr()
        assert ended.value.code == 0, told.err
        return told.out, told.err.decode()

    return run


# --- for machines


EVERYWHERE = ("--voxel", 0, "--per-point", 7, "--max-thickness", 0)  # seven samples per point


def test_json_of_dense_scans(call):
    poli.write(room(), "scan.pcd")
    told = json.loads(call("densify", "scan.pcd", "dense.pcd", *EVERYWHERE, "--json")[0])
    assert (told["points_in"], told["points_out"]) == (300, 2400)
    write_kitti(Path("kitti"), "00", [Scan(room().points)] * 2, np.tile(np.eye(4), (2, 1, 1)))
    told = json.loads(call("densify", "kitti", "dense", *EVERYWHERE, "--json")[0])
    assert (told["out"], told["scans"], told["kept"], told["points_out"]) == ("dense", 2, 0, 4800)


def test_json_and_quiet_of_a_pose(call):
    mesh, rng = procedural_mesh(8, 48), np.random.default_rng(0)
    for name in ("a.ply", "b.ply"):
        poli.write(mesh.sample(500, rng)[0], name)
    out, err = call("register", "a.ply", "b.ply")
    T = np.loadtxt(io.BytesIO(out))
    assert "certified" in err
    assert np.abs(T - np.eye(4)).max() < 0.1
    told = json.loads(call("register", "a.ply", "b.ply", "--json")[0])
    np.testing.assert_allclose(told["T_target_source"], T, atol=1e-8)
    assert told["certified"] is True
    quiet = call("register", "a.ply", "b.ply", "--quiet")
    assert quiet == (out, "")  # it is the requested result
    Path("a.bin").write_bytes(Path("a.ply").read_bytes())
    assert call("register", "-", "b.ply", "-q", stdin=Path("a.ply").read_bytes()) == quiet


def test_quiet_prints_nothing(call):
    points = room().points.copy()
    points[0] = 0.0
    poli.write(points, "scan.npy")
    out = call("estimate", "scan.npy", "f.npz")[0].decode()
    assert out.splitlines() == ["scan.npy: dropped 1 zero return", "f.npz: 299 ellipsoids"]
    told = json.loads(call("estimate", "scan.npy", "f.npz", "--json")[0])
    assert (told["out"], told["ellipsoids"], told["dropped"]) == ("f.npz", 299, {"nonfinite": 0, "zero": 1})
    assert call("estimate", "scan.npy", "g.npz", "--quiet") == (b"", "")
    assert call("simulate", "drive", "--scans", 1, "--quiet") == (b"", "")
    assert Path("f.npz").read_bytes() == Path("g.npz").read_bytes()


# --- pipes


@pytest.mark.parametrize("ending", [".pcd", ".xyz", ".bin"])
def test_a_scan_from_a_pipe_is_the_scan_of_the_file(call, ending):
    scan = Scan(room().points, {"intensity": room().fields["intensity"]})
    poli.write(scan, f"scan{ending}")
    call("estimate", f"scan{ending}", "file.npz")
    call("estimate", "-", "pipe.npz", stdin=Path(f"scan{ending}").read_bytes())
    file, pipe = (poli.Ellipsoids.load(name) for name in ("file.npz", "pipe.npz"))
    np.testing.assert_array_equal(file.covariances, pipe.covariances)


@pytest.mark.parametrize("ending", [".pcd", ".csv"])
def test_a_scan_is_converted_and_converted_back(call, ending):
    poli.write(room(), "scan.npz")
    told = json.loads(call("convert", "scan.npz", f"other{ending}", "--json")[0])
    assert (told["points"], told["fields"], told["left_out"]) == (300, list(room().fields), [])
    call("convert", "-", "again.npz", stdin=Path(f"other{ending}").read_bytes())
    again = poli.read("again.npz")
    np.testing.assert_array_equal(again.points.astype(np.float32), room().points)  # text widens types
    for name in ("intensity", "ring", "time"):  # the columns of a vector are read back one by one
        np.testing.assert_array_equal(again.fields[name].astype(room().fields[name].dtype), room().fields[name])


@pytest.mark.parametrize(("kind", "start"), [("auto", b"PK\x03\x04"), ("ply", b"ply"), ("splat", b"ply")])
def test_ellipsoids_into_a_pipe(call, kind, start):
    poli.write(room(), "scan.pcd")
    out, err = call("estimate", "scan.pcd", "-", "--output", kind)
    assert out.startswith(start)
    assert err == "-: 300 ellipsoids\n"  # on stderr, not in the piped file
    assert sorted(os.listdir()) == ["scan.pcd"]
    assert call("estimate", "scan.pcd", "-", "--output", kind, "--quiet") == (out, "")


def test_a_page_from_piped_input(call):
    poli.write(room(), "room.pcd")
    out, _ = call("view", "-", "--model", "objects", "--json", stdin=Path("room.pcd").read_bytes())
    told = json.loads(out)
    assert (told["page"], told["about"], told["png"]) == ("scan.html", f"{len(room())} returns", None)
    data = re.search(r'<script type="application/json" id="poli-data">(.*?)</script>', Path("scan.html").read_text(), re.DOTALL)[1]
    assert [panel["points"]["total"] for panel in json.loads(data)["panels"] if panel.get("points")] == [len(room())]


def test_a_reader_that_closes_early_is_not_an_error():
    process = subprocess.Popen([*POLI, "models", "lidar"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr.read() == b""
    process.stderr.close()


# --- progress


def test_progress_is_shown_on_terminals_only(tmp_path):
    """A terminal shows progress unless `--quiet` is given; other outputs do not."""
    pty = pytest.importorskip("pty")
    seen = []
    for number, more in enumerate(([], ["--quiet"], None)):
        reader, writer = pty.openpty() if more is not None else os.pipe()
        words = [*POLI, "simulate", f"drive{number}", "--scans", "2", *(more or [])]
        done = subprocess.run(words, cwd=tmp_path, stderr=writer, stdout=subprocess.PIPE, check=True)
        os.close(writer)
        seen.append(_read_all(reader))
        assert (b"\x1b" in done.stdout) is False
    assert "scanning" in seen[0]
    assert seen[1:] == ["", ""]


def _read_all(reader):
    parts = []
    try:
        while part := os.read(reader, 65536):
            parts.append(part)
    except OSError:  # the end of a pseudo-terminal, on Linux
        pass
    os.close(reader)
    return b"".join(parts).decode()


# --- Ctrl-C


def interrupt(words, folder, begun):
    """Start a command, press Ctrl-C once it has begun, and wait for its end."""
    process = subprocess.Popen(
        [*POLI, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background processes inherit that it is ignored
    )  # fmt: skip
    while process.poll() is None and not begun():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # to the whole group, as a terminal does
    _, err = process.communicate()
    return process.returncode, [line for line in err.splitlines() if line.strip()]


def test_ctrl_c_keeps_only_whole_scans_of_a_dense_tree(tmp_path):
    write_kitti(tmp_path / "kitti", "00", [Scan(room(3000).points)] * 400, np.tile(np.eye(4), (400, 1, 1)))
    dense = tmp_path / "dense.partial" / "new"
    begun = lambda: len(list(dense.glob("sequences/00/velodyne/*.bin"))) > 2  # noqa: E731
    code, said = interrupt(["densify", "kitti", "dense", "--workers", "2"], tmp_path, begun)
    assert code == 130
    assert said[-1].startswith("poli: interrupted after ")
    assert said[-1].endswith("of 400 scans; run it again to resume")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dense.partial", "kitti"]
    sizes = [len(poli.read(path)) for path in dense.glob("sequences/00/velodyne/*")]
    assert 2 < len(sizes) < 400
    assert len(set(sizes)) == 1


# --- Tab
