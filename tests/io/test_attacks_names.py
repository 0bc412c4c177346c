"""Names that are not UTF-8, and inputs that an output would overwrite. Each row is one attack."""

import os
import stat
from pathlib import Path

import pytest

from attack_tools import NOT_UTF8, PCA, bag, harmless, in_folder, model, odometry_run, posix, scan
from poli.errors import printable

pytestmark = posix

UNREADABLE = {
    "convert": lambda n: ("convert", scan(f"{n}.ply"), f"{n}.pcd"),
    "estimate": lambda n: ("estimate", scan(f"{n}.ply"), f"{n}.npz", *PCA),
    "densify a scan": lambda n: ("densify", scan(f"{n}.ply"), f"{n}2.ply", *PCA),
    "densify a folder": lambda n: ("densify", in_folder(n), f"{n}2", *PCA, "--workers", 1),
    "odometry": lambda n: ("odometry", in_folder(n), *PCA, "--out", f"{n}2"),
    "a page": lambda n: ("view", scan(f"{n}.ply"), *PCA, "--out", f"{n}.html"),
    "a picture": lambda n: ("view", scan(f"{n}.ply"), *PCA, "--png", f"{n}.png"),
    "a page of a run": lambda n: ("view", odometry_run(n, name=n), *PCA, "--out", "a.html"),
    "simulate": lambda n: ("simulate", n, "--scans", 1),
}


@pytest.mark.parametrize("verb", UNREADABLE)
def test_names_that_are_not_utf8(run_poli, verb):
    code, said = run_poli(*UNREADABLE[verb](NOT_UTF8))
    assert code == 0, said
    assert harmless(said)
    assert not list(Path().glob(".*"))


def test_printable_escapes_text_that_cannot_be_encoded():
    assert printable("sound é") == "sound é"
    assert printable("caf\udce9\udcff\ud800") == "caf\\udce9\\udcff\\ud800"


# --- overwriting inputs


def _same(kind: str, name: str, ending: str = "") -> str:
    """Make `name` available under another name."""
    other = {"itself": name, "another path": f"../{Path.cwd().name}/{name}"}.get(kind, f"link{ending or Path(name).suffix}")
    if kind == "symbolic link":
        Path(other).symlink_to(name)
    elif kind == "hard link":
        os.link(name, other)
    return other


OVERWRITES = {
    "convert": lambda k: ("convert", scan(), _same(k, "a.ply")),
    "estimate to .ply": lambda k: ("estimate", scan(), _same(k, "a.ply"), *PCA),
    "estimate to .npz": lambda k: ("estimate", scan("a.npz"), _same(k, "a.npz"), *PCA),
    "register, source": lambda k: ("register", scan(), scan("b.ply"), "--out", _same(k, "a.ply")),
    "register, target": lambda k: ("register", scan("b.ply"), scan(), "--out", _same(k, "a.ply")),
    "densify a scan": lambda k: ("densify", scan(), _same(k, "a.ply"), *PCA),
    "densify a bag": lambda k: ("densify", bag("a.bag"), _same(k, "a.bag"), "--topic", "/points", "--overwrite"),
}


@pytest.mark.parametrize("kind", ["itself", "another path", "symbolic link", "hard link"])
@pytest.mark.parametrize("verb", OVERWRITES)
def test_no_input_is_overwritten(run_poli, verb, kind):
    words = OVERWRITES[verb](kind)
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, said = run_poli(*words)
    assert (code, "input and output are the same" in said) == (2, True), said
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize("option", ["--out", "--png"])
def test_no_view_overwrites_its_scan(run_poli, option):
    ending = {"--out": ".html", "--png": ".png"}[option]
    scan()
    code, said = run_poli("view", "a.ply", *PCA, option, _same("hard link", "a.ply", ending))
    assert (code, "input and output are the same" in said) == (2, True)


def test_no_export_overwrites_its_model(run_poli):
    code, said = run_poli("export", _same("symbolic link", model("m.safetensors"), ".onnx"), "--model", "m.safetensors")
    assert (code, "input and output are the same" in said) == (2, True)


def test_poses_of_another_sequence_are_kept(run_poli):
    Path("k/poses").mkdir(parents=True)
    Path("k/poses/00.txt").write_text("mine")
    code, said = run_poli("simulate", "k", "--layout", "kitti", "--scans", 1)
    assert code == 2
    assert "00.txt: already exists" in said
    assert Path("k/poses/00.txt").read_text() == "mine"


def test_devices_are_not_replaced(run_poli):
    os.mkfifo("pipe.txt")
    code, said = run_poli("register", scan(), scan("b.ply"), "--out", "pipe.txt")
    assert code == 2
    assert "is a device or a pipe" in said
    assert stat.S_ISFIFO(os.stat("pipe.txt").st_mode)
