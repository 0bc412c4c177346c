"""Outputs appear complete or not at all, with the mode of the user's umask; one process per folder; no input is overwritten."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import poli
from attack_tools import posix
from poli.cli import app
from poli.errors import FormatError
from poli.io import atomic
from poli.io.atomic import atomic_folder, atomic_path, remove_stale, sole_user, temporary_folder
from poli.lidar_odometry.run_folder import link_latest
from tiny_scans import room

pytestmark = posix

STALE = ".poli-0123456789abcdef"


def test_cleanup_follows_no_links_and_removes_only_our_files(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    (tmp_path / STALE).symlink_to(tmp_path / "home")
    (tmp_path / f"{STALE}.txt").symlink_to(tmp_path / "home" / "letter")
    (tmp_path / ".poli-notes").write_text("mine")
    (tmp_path / "x.poli-0123456789abcdef").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    remove_stale(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "home" / "letter").read_text() == "dear"


def test_files_in_use_are_not_stale(tmp_path):
    with atomic_path(tmp_path / "a.ply") as file, temporary_folder(tmp_path) as folder:
        remove_stale(tmp_path)
        assert file.is_file()
        assert folder.is_dir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["a.ply"]


def test_stale_files_are_removed_by_the_next_write(tmp_path):
    (tmp_path / f"{STALE}.ply").write_text("of a process that was killed")
    (tmp_path / f"{STALE[:-1]}0").mkdir()
    (tmp_path / f"{STALE[:-1]}0" / "file").write_text("of another")
    poli.write(room(), tmp_path / "a.ply")
    assert [path.name for path in tmp_path.iterdir()] == ["a.ply"]


def test_outputs_replace_links_and_not_their_targets(tmp_path):
    (tmp_path / "letter").write_text("dear")
    (tmp_path / "a.txt").symlink_to(tmp_path / "letter")
    with atomic_path(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "letter").read_text() == "dear"
    assert (tmp_path / "a.txt").read_text() == "new"
    (tmp_path / "nowhere").symlink_to(tmp_path / "made")
    with pytest.raises(FormatError), atomic_folder(tmp_path / "nowhere"):
        pass
    assert not (tmp_path / "made").exists()


def test_latest_replaces_a_link_and_keeps_its_target(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    (tmp_path / "run").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "home")
    link_latest(tmp_path / "run")
    assert (tmp_path / "latest").resolve() == tmp_path / "run"
    assert (tmp_path / "home" / "letter").read_text() == "dear"
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()  # a user's file
    link_latest(tmp_path / "run")
    assert (tmp_path / "latest").is_dir()
    assert not (tmp_path / "latest").is_symlink()
    assert not list(tmp_path.glob(".*"))


# --- the mode of outputs


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


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output


# --- one process per folder

HOLD = """
import sys, time
from pathlib import Path
from poli.io.atomic import sole_user
with sole_user(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    time.sleep(600)
"""


def holding(folder) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_folder_stays_locked_until_its_holder_is_killed(tmp_path):
    process = holding(tmp_path)
    with pytest.raises(FormatError, match="taken"), sole_user(tmp_path, "taken"):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with sole_user(tmp_path, "taken"):
        assert not list(tmp_path.iterdir())
        with pytest.raises(FormatError, match="again"), sole_user(tmp_path, "again"):
            pass


def test_missing_lock_support_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.fcntl, "flock", unsupported)
    with pytest.warns(UserWarning, match="this file system has no locks"), sole_user(tmp_path, "taken"):
        pass


def unsupported(*_):
    raise OSError(errno.ENOLCK, "No locks available")


# --- training


def test_two_trainings_do_not_share_a_folder(tmp_path):
    pytest.importorskip("torch")
    from poli.train.config import read_config
    from poli.train.trainer import train
    from tiny_training import tiny

    config = tiny(tmp_path, 2)
    (tmp_path / "run").mkdir()
    process = holding(tmp_path / "run")
    try:
        with pytest.raises(FormatError, match=r"run: another training.*choose another folder"):
            train(read_config(config), tmp_path / "run")
        assert not list((tmp_path / "run").iterdir())
    finally:
        process.kill()
        process.communicate()
    train(read_config(config), tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*"))


def test_no_training_overwrites_its_starting_point(tmp_path):
    pytest.importorskip("torch")
    from dataclasses import replace

    from poli.train.adapt import check_free
    from poli.train.config import read_config
    from poli.train.trainer import train
    from tiny_training import tiny

    config = read_config(tiny(tmp_path, 2))
    model = train(config, tmp_path / "run")
    before = model.read_bytes()
    again = replace(config, name="again", initial=str(model))
    for fresh in (False, True):
        with pytest.raises(FormatError, match="input and output are the same"):
            train(again, tmp_path / "run", fresh=fresh)
    os.link(model, tmp_path / "link.safetensors")
    with pytest.raises(FormatError, match="input and output are the same"):
        check_free(tmp_path / "run", True, str(tmp_path / "link.safetensors"))
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    with pytest.raises(FormatError, match=r"model\.safetensors: .*without the checkpoint.*--fresh"):
        train(config, tmp_path / "run")
    assert model.read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "log.csv").write_text("name,phone\nAda,12\n")
    with pytest.raises(FormatError, match="not a log of `poli train`"):
        train(config, tmp_path / "other")
    assert (tmp_path / "other" / "log.csv").read_text() == "name,phone\nAda,12\n"


def test_the_bytes_of_tensors_depend_only_on_their_values(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors import safe_open

    from poli.train.model_file import write_tensors

    tensors = {f"t{i}": torch.arange(i + 1, dtype=kind) for i, kind in enumerate((torch.float32, torch.int64, torch.float64))}
    metadata = {f"key {i}": f"ä {i}" for i in range(20)}
    write_tensors(tmp_path / "a.safetensors", tensors, metadata)
    write_tensors(tmp_path / "b.safetensors", dict(reversed(tensors.items())), dict(reversed(metadata.items())))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert file.metadata() == metadata
        assert all(torch.equal(file.get_tensor(name), tensors[name]) for name in tensors)
