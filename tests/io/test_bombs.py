"""Small files that promise, inflate to or request gigabytes: refused quickly, in little memory, with the limit and its remedy."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
pytest.importorskip("laspy", reason="laspy is not installed: pip install 'poli[las]'")
pytest.importorskip("torch", reason="torch is not installed: pip install 'poli[train]'")

import poli
from bombs.point_bombs import _zeros_npz
from bombs.run import BOMBS
from poli import Scan
from poli.errors import FormatError, InputError
from poli.io.formats.numpy_files import write_npz
from poli.io.limits import VARIABLE, check_inflated, largest_inflated
from poli.io.tables import parse_json

MEMORY = 900e6  # bytes: the amount that may inflate without asking, held twice, plus a margin
ANSWERS = {  # odd but valid, or not worth an error
    "lzf.pcd", "scale.las", "line.csv", "continued.obj", "blank_continued.obj", "corners.obj", "name.safetensors",
    "lists densify.json", "tables densify.json", "list densify.json", "few_points.laz", "old_few_points.laz",
}  # fmt: skip


def test_every_bomb_is_defused():
    """Run all bombs in one process of limited memory, which must survive them."""
    ran = subprocess.run([sys.executable, "-m", "tests.bombs.run"], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    results = json.loads(ran.stdout.splitlines()[-1])
    assert [found["name"] for found in results] == list(BOMBS)
    for found in results:
        assert found["kind"] != "bad", found
        assert found["kind"] == "refused" or found["name"] in ANSWERS, found
        assert found["memory"] < MEMORY, found


def test_limits_and_how_to_lift_them(monkeypatch):
    assert largest_inflated(10) == 256 << 20
    assert largest_inflated(10 << 20) == 1000 << 20
    assert largest_inflated(1 << 40) == 16 << 30
    check_inflated("a.npz", 10, 256 << 20)
    with pytest.raises(FormatError, match=rf"a\.npz: 10 bytes .* 5368709121, .*{VARIABLE} to 6G"):
        check_inflated("a.npz", 10, (5 << 30) + 1)
    for text, most in (("1000", 1000), ("64G", 64 << 30), ("2 MiB", 2 << 20), ("1k", 1024)):
        monkeypatch.setenv(VARIABLE, text)
        assert largest_inflated(10) == most
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(InputError, match=VARIABLE):
        largest_inflated(10)


def test_files_are_read_once_the_limit_is_lifted(tmp_path, monkeypatch):
    path = tmp_path / "zeros.npz"
    path.write_bytes(_zeros_npz(100_000))
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


@pytest.mark.parametrize(("kind", "mode"), [("ros1", "BZ2"), ("ros1", "LZ4"), ("mcap", "STORAGE"), ("sqlite3", "MESSAGE")])
def test_valid_bags_full_of_zeros_are_read(tmp_path, kind, mode):
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
    from rosbags.rosbag2 import Writer as Writer2

    from tiny_bags import CLOUD, STORES, cloud

    store, path = STORES[kind], tmp_path / ("a.bag" if kind == "ros1" else "a")
    if kind == "ros1":
        writer = Writer1(path)
        writer.set_compression(Writer1.CompressionFormat[mode])
    else:
        writer = Writer2(path, version=9, storage_plugin=StoragePlugin[kind.upper()])
        writer.set_compression(CompressionMode[mode], CompressionFormat.ZSTD)
    with writer:
        topic = writer.add_connection("/points", CLOUD, typestore=store)
        for i in range(3):
            message = cloud(kind, i, 50_000)
            message.data[...] = 0
            message.data.reshape(-1, 32)[:, 5] = 64  # x is 2.0
            serialize = store.serialize_ros1 if kind == "ros1" else store.serialize_cdr
            writer.write(topic, 10**18 + i, serialize(message, CLOUD))
    with poli.dataset("bag", path) as scans:
        assert [len(scan) for scan in scans] == [50_000] * 3


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


def test_depth_of_tables():
    for text in ("[" * 100_000, '{"a":' * 100_000, "[NaN]"):
        with pytest.raises(FormatError, match="here: not valid JSON"):
            parse_json(text, "here")


def test_a_member_that_ends_early_is_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        member = io.BytesIO()
        np.save(member, np.ones((10, 3)))
        archive.writestr("points.npy", member.getvalue())
    data = out.getvalue().replace(np.float64(1.0).tobytes(), np.float64(2.0).tobytes(), 1)
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(FormatError, match=r"a\.npz.*CRC"):
        poli.read(tmp_path / "a.npz")
