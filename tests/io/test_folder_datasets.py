"""Folders: this project's dataset format, and plain folders of scan files."""

import json
from dataclasses import replace

import numpy as np
import pytest

import poli
from poli import Scan
from poli.errors import FormatError, InputError
from poli.io.datasets import write_folder
from tiny_sequences import floats, random_poses

# --- our format


def stamped_scans(rng, count=4):
    for i in range(count):
        n = 5 * (i != 2)  # one scan is empty
        fields = {"normal": rng.normal(size=(n, 3)), "label": np.arange(n, dtype=np.uint8), "time": np.zeros(n, np.float32)}
        yield Scan(rng.normal(size=(n, 3)).astype(np.float32), fields, stamp=10**18 + 3 * i)


def test_a_folder_round_trips_exactly(tmp_path, rng):
    poses, measured = random_poses(4), random_poses(4, seed=1)
    scans = list(stamped_scans(rng))
    write_folder(tmp_path / "out", "street 1", iter(scans), poses, measured, {"sensor": "vlp16", "seed": 3})
    again = poli.dataset(None, tmp_path / "out")
    assert (again.name, again.about) == ("street 1", {"sensor": "vlp16", "seed": 3})
    np.testing.assert_array_equal(again.poses, poses)
    np.testing.assert_array_equal(again.measured, measured)
    for mine, its in zip(again, scans, strict=True):
        assert mine.stamp == its.stamp
        np.testing.assert_array_equal(mine.points, its.points)
        assert list(mine.fields) == list(its.fields)
        for name, values in its.fields.items():
            np.testing.assert_array_equal(mine.fields[name], values)
            assert mine.fields[name].dtype == values.dtype


def test_a_failed_folder_leaves_nothing(tmp_path, rng):
    scans = list(stamped_scans(rng))
    cases = [
        (scans, random_poses(3), {}, "3 poses for 4 scans"),
        ([scans[0], scans[0]], random_poses(2), {}, "scan 1 .*same stamp"),
        ([replace(scans[0], stamp=None)], random_poses(1), {}, r"scan 0 .*stamp None.*Scan\(stamp="),
        (scans, np.zeros((4, 4, 4)), {}, r"poses\[0\] is not a rigid motion"),
        (scans, random_poses(4), {"made": object()}, "about: .*JSON"),
    ]
    for given, poses, about, message in cases:
        with pytest.raises(InputError, match=message):
            write_folder(tmp_path / "out", "x", given, poses, about=about)
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", "x", scans, random_poses(4))
    with pytest.raises(FormatError, match=r"exists.*remove it"):
        write_folder(tmp_path / "out", "x", scans, random_poses(4))


def test_an_incomplete_folder_is_refused(tmp_path, rng):
    out = tmp_path / "out"
    write_folder(out, "x", stamped_scans(rng), random_poses(4))
    rows = (out / "poses.txt").read_text().splitlines()
    (out / "poses.txt").write_text("\n".join(rows[:3]))
    with pytest.raises(FormatError, match="3 poses for 4 scans"):
        poli.dataset("poli", out)
    (out / "poses.txt").write_text("\n".join([*rows[:3], "7 " + rows[3].split(" ", 1)[1]]))
    with pytest.raises(FormatError, match=r"difference is at stamp"):
        poli.dataset("poli", out)
    (out / "scans" / f"{10**18}.npz").unlink()
    with pytest.raises(FormatError, match="4 scans, found 3"):
        poli.dataset("poli", out)
    manifest = json.loads((out / "dataset.json").read_text())
    for changed in ({**manifest, "version": 2}, {**manifest, "format": "?"}, {**manifest, "scans": "4"}, [1]):
        (out / "dataset.json").write_text(json.dumps(changed))
        with pytest.raises(FormatError, match=r"dataset\.json"):
            poli.dataset("poli", out)
    (out / "dataset.json").write_text("{")
    with pytest.raises(FormatError, match="JSON"):
        poli.dataset("poli", out)


# --- folders of files


def test_a_plain_folder_sorts_naturally(tmp_path):
    for n in (10, 2, 1):
        (tmp_path / f"scan{n}.bin").write_bytes(floats([(n, 0, 0, 0)]))
    (tmp_path / "scan11.bin").write_bytes(b"")
    (tmp_path / "times.txt").write_text("0 1 2")
    scans = poli.dataset("auto", tmp_path)
    assert [len(scan) and int(scan.points[0, 0]) for scan in scans] == [1, 2, 10, 0]
    assert scans.poses is None
    (tmp_path / "a.ply").write_text("ply")
    with pytest.raises(FormatError, match=r"4 \.bin, 1 \.ply.*ending="):
        poli.dataset("folder", tmp_path)
    assert len(poli.dataset("folder", tmp_path, ending=".bin")) == 4
    with pytest.raises(InputError, match="ending"):
        poli.dataset("folder", tmp_path, ending=".png")
