"""Outputs have the mode that the user's umask asks for, whichever library writes them."""

import os
import stat
import sys

import pytest
from typer.testing import CliRunner

import poli
from poli.cli import app
from poli.io.atomic import atomic_folder, atomic_path
from tiny_scans import room

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")


@pytest.fixture(params=[0o022, 0o027])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def check(path, umask):
    """The path, and everything in it, follows the umask."""
    for found in [path, *path.rglob("*")]:
        mode = stat.S_IMODE(found.stat().st_mode)
        assert oct(mode) == oct((0o777 if found.is_dir() else 0o666) & ~umask), found


def test_a_library_that_replaces_the_temporary_file(tmp_path, umask):
    """As safetensors does, which writes a private file of its own and renames it."""
    with atomic_path(tmp_path / "a.bin") as temporary:
        own = tmp_path / "own"
        own.touch(mode=0o600)
        own.replace(temporary)
    check(tmp_path / "a.bin", umask)
    with atomic_folder(tmp_path / "b") as temporary:
        (temporary / "c").write_text("")
    check(tmp_path / "b", umask)


def test_scan_files_and_commands(tmp_path, umask):
    scans = tmp_path / "scans"
    scans.mkdir()
    for i in range(2):
        poli.write(room(300, i), scans / f"{i}.pcd")
    out = tmp_path / "out"
    out.mkdir()
    for ending in ("ply", "pcd", "npy", "npz"):
        poli.write(room(60), out / f"a.{ending}")
    poli.pca(room(300).points, k=9).save(out / "field.npz")
    run("densify", scans / "0.pcd", out / "dense.pcd", "--model", "pca", "--voxel", 0)
    run("densify", scans, out / "dense", "--model", "pca", "--voxel", 0)
    run("view", scans / "0.pcd", "--model", "pca", "--out", out / "page.html")
    run("view", scans / "0.pcd", "--model", "pca", "--png", out / "picture.png")
    check(out, umask)


def test_training(tmp_path, umask):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'poli[train]'")
    from tiny_training import tiny

    run("train", tiny(tmp_path, 2), "--out", tmp_path / "run")
    check(tmp_path / "run", umask)


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
