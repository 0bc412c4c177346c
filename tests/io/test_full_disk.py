"""A full disk, for every command that writes: exit code 2, one line that names the file, and no partial output."""

import errno
import os
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import poli
from attack_tools import PCA, in_folder, posix, scan
from poli.cli import main
from poli.errors import FormatError
from poli.io.atomic import is_of_the_disk, reason, writing
from tiny_scans import room

resource = pytest.importorskip("resource")
pytestmark = posix


@contextmanager
def files_of_at_most(size: int):
    """Limit files to `size` bytes: the only full disk that a test can have without a mount (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _bag(kind):
    pytest.importorskip("rosbags", reason="rosbags is not installed")
    from tiny_bags import write_bag

    source = Path("in.bag" if kind == "ros1" else "in")
    write_bag(source, kind, clouds=2, points=300)
    return source, "out" + source.suffix, "--voxel", 0, "--workers", 1


def _plain():
    """Less than a C buffer: the error on closing such a file used to be missed."""
    poli.write(room().points, "in.npz")
    return "in.npz"


ENDINGS = ("pcd", "ply", "bin", "csv", "npy", "npz", "las", "laz")
# The first number is the allowed file size in bytes: enough for intermediate files.
VERBS = {
    **{f"convert to {e}": (1000, lambda e=e: ("convert", _plain(), f"out.{e}")) for e in ENDINGS},
    "convert, dropping fields": (1000, lambda: ("convert", scan(), "out.bin", "--drop")),
    "estimate to npz": (1000, lambda: ("estimate", scan(), "out.npz", *PCA)),
    "estimate to ply": (1000, lambda: ("estimate", scan(), "out.ply", *PCA)),
    "register": (10, lambda: ("register", scan(), scan("b.ply"), "--out", "out.txt")),
    "densify a scan": (1000, lambda: ("densify", scan(), "out.ply", *PCA)),
    "densify a folder": (1000, lambda: ("densify", in_folder("in"), "out", *PCA, "--workers", 1)),
    "densify ros1": (3000, lambda: ("densify", *_bag("ros1"))),
    "densify sqlite3": (3000, lambda: ("densify", *_bag("sqlite3"))),
    "densify mcap": (3000, lambda: ("densify", *_bag("mcap"))),
    "odometry": (100, lambda: ("odometry", in_folder("in"), *PCA, "--out", "out")),
    "a page": (1000, lambda: ("view", scan(), *PCA, "--out", "out.html")),
    "a picture": (1000, lambda: ("view", scan(), *PCA, "--png", "out.png")),
    "simulate": (1000, lambda: ("simulate", "out", "--scans", 1)),
    "simulate as KITTI": (1000, lambda: ("simulate", "out", "--scans", 1, "--layout", "kitti")),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_is_one_line_and_code_2(tmp_path, monkeypatch, capsys, verb):
    monkeypatch.chdir(tmp_path)
    if "la" in verb[-3:]:
        pytest.importorskip("laspy", reason="laspy is not installed")
    size, words = VERBS[verb][0], VERBS[verb][1]()
    before = sorted(Path().iterdir())
    with files_of_at_most(size), pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--quiet"])
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    assert "cannot be written" in said
    assert said.count("\n") == 1, said
    left = [path for path in sorted(Path().rglob("*")) if path.name.startswith(".poli-")]
    assert not left
    if verb.startswith(("densify a folder", "odometry", "simulate as", "densify ros1", "densify sqlite3", "densify mcap")):
        return  # finished parts stay for the next run
    assert sorted(Path().iterdir()) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize(
    "words", [("convert", "a.ply", "-"), ("convert", "a.ply", "b.pcd"), ("models", "lidar"), ("models", "--json")]
)
def test_a_full_standard_output_is_one_line_and_code_2(tmp_path, words):
    scan(str(tmp_path / "a.ply"))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "poli", *words], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "No space left on device; free some disk space" in done.stderr


def test_a_training_log_that_cannot_grow(tmp_path):
    pytest.importorskip("torch")
    from poli.train.checkpoint import CsvLog

    log = CsvLog(tmp_path / "log.csv", ["step", "loss"], 0)
    with files_of_at_most(10), pytest.raises(FormatError, match=r"log\.csv: cannot be written: File too large.*ulimit -f"):
        log.append({"step": 1, "loss": 0.5})


def test_a_checkpoint_that_does_not_fit(tmp_path):
    torch = pytest.importorskip("torch")
    from poli.train.model_file import write_tensors

    write_tensors(tmp_path / "c.safetensors", {"a": torch.zeros(3)}, {"b": "c"})
    before = (tmp_path / "c.safetensors").read_bytes()
    with files_of_at_most(1000), pytest.raises(FormatError, match=r"c\.safetensors: cannot be written"):
        write_tensors(tmp_path / "c.safetensors", {"a": torch.zeros(3000)}, {"b": "c"})
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS])
def test_all_disk_full_errors_are_reported_with_a_remedy(number):
    error = OSError(number, os.strerror(number))
    assert is_of_the_disk(error)
    assert "; " in reason(error)
    with pytest.raises(FormatError, match=r"a\.ply: cannot be written"), writing("a.ply"):
        raise error
    with pytest.raises(OSError, match=r"b\.ply"), writing("a.ply"):
        raise OSError(number, os.strerror(number), "b.ply")  # of another file


def test_a_full_database_is_reported_as_a_full_disk(tmp_path):
    from poli.io.datasets.bag_copy import _on_disk

    base = sqlite3.connect(tmp_path / "a.db3")
    base.execute("PRAGMA max_page_count = 2")
    base.execute("CREATE TABLE a (b)")
    with pytest.raises(OSError, match="full") as raised, _on_disk():
        base.execute("INSERT INTO a VALUES (zeroblob(100000))")
    assert raised.value.errno == errno.ENOSPC
    base.close()
