"""Files whose names are not UTF-8, or have a special meaning for libraries that open them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import poli
from poli import Ellipsoids, Scan
from poli.errors import printable

ODD = os.fsdecode(b"caf\xe9\xff")
SCAN = Scan(np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32), {"intensity": np.ones(100, np.float32)})


@pytest.fixture(autouse=True)
def _possible(tmp_path):
    try:
        (tmp_path / ODD).touch()
    except OSError:
        pytest.skip("this file system only allows UTF-8 names")


@pytest.mark.parametrize("ending", [".bin", ".pcd.bin", ".pcd", ".ply", ".xyz", ".csv", ".npy", ".npz", ".las", ".laz"])
def test_every_format_reads_and_writes_them(tmp_path, ending):
    if ending in (".las", ".laz"):
        pytest.importorskip("laspy")
    poli.write(SCAN, tmp_path / f"{ODD}{ending}")
    assert len(poli.read(tmp_path / f"{ODD}{ending}")) == 100


def test_fields_and_folders(tmp_path):
    field = Ellipsoids(np.zeros((2, 3)), np.tile(np.eye(3), (2, 1, 1)))
    field.save(tmp_path / f"{ODD}.npz")
    assert len(Ellipsoids.load(tmp_path / f"{ODD}.npz")) == 2
    (tmp_path / f"{ODD}d").mkdir()
    poli.write(SCAN, tmp_path / f"{ODD}d" / f"{ODD}.pcd")
    assert [len(scan) for scan in poli.dataset("auto", tmp_path / f"{ODD}d")] == [100]


@pytest.mark.parametrize("kind", ["ros1", "sqlite3", "mcap"])
@pytest.mark.parametrize("odd", [ODD, "a#b?c%41d", "a b"])
def test_bags(tmp_path, kind, odd):
    from tiny_bags import write_bag

    if kind == "sqlite3" and odd != "a b":
        pytest.skip("rosbags opens databases by URI")
    file = write_bag(tmp_path / ("a.bag" if kind == "ros1" else "a"), kind, clouds=2, points=20)
    shutil.copy(file, tmp_path / f"{odd}{file.suffix}")
    with poli.dataset("bag", tmp_path / f"{odd}{file.suffix}") as scans:
        for _ in range(2):  # again from the start
            assert [len(scan) for scan in scans] == [20, 20]


def test_commands(tmp_path):
    poli.write(SCAN, tmp_path / f"{ODD}.pcd")
    command = [sys.executable, "-m", "poli"]
    for words in (
        ("view", f"{ODD}.pcd", "--model", "pca", "--out", f"{ODD}.html"),
        ("view", f"{ODD}.pcd", "--model", "pca"),
        ("convert", f"{ODD}.pcd", f"{ODD}.ply"),
        ("convert", f"{ODD}.pcd", f"{ODD}2.ply", "--json"),
    ):
        ran = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True)
        assert ran.returncode == 0, ran.stderr
    page = (tmp_path / f"{ODD}.html").read_text(encoding="utf-8")
    assert r"caf\xe9\xff.pcd" in page
    ran = subprocess.run([*command, "view", f"{ODD}?.pcd"], cwd=tmp_path, capture_output=True)
    assert (ran.returncode, b"no such file" in ran.stderr) == (2, True)


def test_printable_escapes_text_that_cannot_be_encoded():
    assert printable("sound é") == "sound é"
    assert printable(f"{ODD}\ud800") == "caf\\xe9\\xff\\ud800"


def test_a_full_disk_is_reported_as_such(tmp_path):
    """By a limit on file sizes: libraries that compress must not hide write errors."""
    pytest.importorskip("laspy")
    code = (
        "import resource, signal, sys, numpy as np, poli\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "scan = poli.Scan(np.random.default_rng(0).normal(size=(5000, 3)))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "for ending in ('.laz', '.las', '.npz', '.pcd'):\n"
        "    try:\n        poli.write(scan, sys.argv[1] + ending)\n"
        "    except poli.PoliError as error:\n        assert ending in str(error), error\n"
        "    else:\n        raise SystemExit('written')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert not list(Path(tmp_path).glob("*.*"))
