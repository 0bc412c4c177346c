"""Small files that promise, inflate to or request gigabytes: refused quickly, in little memory, with the limit and its remedy."""

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
pytest.importorskip("laspy", reason="laspy is not installed: pip install 'poli[las]'")
pytest.importorskip("torch", reason="torch is not installed: pip install 'poli[train]'")

import poli
from fuzz.point_bombs import zeros_npz
from fuzz.run import BOMBS, fuzz
from poli import Scan
from poli.errors import FormatError, InputError
from poli.io.formats.numpy_files import write_npz
from poli.io.limits import VARIABLE, check_inflated, largest_inflated

ANSWERS = {"lzf.pcd", "line.csv", "corners.obj"}  # odd but valid


def test_every_bomb_is_defused():
    """Read all bombs in one process of limited memory, which must survive them."""
    tally = fuzz(len(BOMBS), 1, "bombs")
    assert not tally.bad, tally.bad[0]
    assert {name.removeprefix("bomb ") for name, kind in tally.verdicts if kind == "answer"} == ANSWERS
    assert tally.cases == len(BOMBS)


def test_limits_and_how_to_lift_them(monkeypatch):
    assert largest_inflated(10) == 256 << 20
    assert largest_inflated(10 << 20) == 1000 << 20
    assert largest_inflated(1 << 40) == 16 << 30
    check_inflated("a.npz", 10, 256 << 20)
    with pytest.raises(FormatError, match=rf"a\.npz: 10 bytes .* 5368709121 or more.*{VARIABLE} to 6G"):
        check_inflated("a.npz", 10, (5 << 30) + 1)
    for text, most in (("1000", 1000), ("64G", 64 << 30), ("2 MiB", 2 << 20), ("1k", 1024)):
        monkeypatch.setenv(VARIABLE, text)
        assert largest_inflated(10) == most
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(InputError, match=VARIABLE):
        largest_inflated(10)


def test_files_are_read_once_the_limit_is_lifted(tmp_path, monkeypatch):
    path = tmp_path / "zeros.npz"
    path.write_bytes(zeros_npz(100_000))
    monkeypatch.setenv(VARIABLE, "1M")
    with pytest.raises(FormatError, match=rf"zeros\.npz.*{VARIABLE} to 3M"):
        poli.read(path)
    monkeypatch.setenv(VARIABLE, "3M")
    assert poli.read(path).dropped.zero == 100_000


def test_valid_files_full_of_zeros_are_read(tmp_path):
    """A million points, nearly all zero, which compress to almost nothing."""
    points = np.zeros((1_000_000, 3))
    points[:, 0] = 1.0
    scan = Scan(points, {name: np.zeros(len(points)) for name in ("intensity", "ring", "label", "time")})
    write_npz(tmp_path / "a.npz", scan, compressed=True)
    poli.write(scan.keep(), tmp_path / "a.laz")
    for name in ("a.npz", "a.laz"):
        assert (tmp_path / name).stat().st_size < 1_000_000
        assert len(poli.read(tmp_path / name)) == 1_000_000


def test_rosbags_decompresses_with_our_functions():
    """`guard_rosbags` replaces names of rosbags; a release that calls other names must be noticed."""
    from rosbags.rosbag1 import reader as rosbag1
    from rosbags.rosbag2 import reader
    from rosbags.rosbag2 import storage_mcap as mcap

    from poli.io.limits import guard_rosbags

    guard_rosbags()
    assert set(rosbag1.decompressors) == {"none", "bz2", "lz4"}
    assert set(mcap.DECOMPRESSORS) == {"", "lz4", "zstd"}
    for function in (rosbag1.decompressors["bz2"], mcap.DECOMPRESSORS["zstd"], reader.zstd.decompress):
        assert getattr(function, "func", function).__module__ == "poli.io.limits"
