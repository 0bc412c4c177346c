"""`poli view` of odometry folders with odd contents: a page, or an error that names the file."""

import json
from pathlib import Path

import pytest

from attack_tools import PCA, harmless, in_folder, odometry_run
from poli.errors import FormatError
from poli.lidar_odometry.run_folder import _COLUMNS, read_steps

LINE = "1 0 0 0 0 1 0 0 0 0 1 0\n"


def _write(name, content):
    return lambda folder: (folder / name).write_text(content)


def _data(**data):
    def change(folder):
        told = {"path": str(Path("scans").resolve()), "dataset": "auto", "options": {}, "first": 0, "name": "drive"}
        (folder / "config.json").write_text(json.dumps({"data": {**told, **data}}))

    return change


ODD = {
    "config.json: no JSON": _write("config.json", "{"),
    "config.json: a list": _write("config.json", "[]"),
    "config.json: NaN": _data(first=float("nan")),
    "config.json: first is negative": _data(first=-3),
    "config.json: first is true": _data(first=True),
    "first is beyond the data": _data(first=7),
    "config.json: an option is a list": _data(options={"ending": [1]}),
    "an unknown option": _data(options={"teapot": "x", "path": "y"}),
    "config.json: path with a zero": _data(path="a\0b"),
    "dataset is unknown": _data(dataset="teapot"),
    "name is nasty": _data(name="\x1b[2J\udcff\n"),
    "poses_kitti.txt: empty": _write("poses_kitti.txt", ""),
    "poses_kitti.txt: too few numbers": _write("poses_kitti.txt", "1 0 0\n"),
    "poses_kitti.txt: no rotation": _write("poses_kitti.txt", "9 0 0 0 0 9 0 0 0 0 9 0\n"),
    "poses_kitti.txt: far away": _write("poses_kitti.txt", LINE + "1 0 0 1e300 0 1 0 0 0 0 1 0\n"),
    "the last pose is cut off": _write("poses_kitti.txt", LINE + "1 0 0"),
    "truth_kitti.txt: words": _write("truth_kitti.txt", "a b\n"),
    "the truth is longer": _write("truth_kitti.txt", LINE * 9),
    "map.ply: words": _write("map.ply", "teapot"),
    "map.ply: a scan": _write("map.ply", "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n"),
    "steps.csv: words": _write("steps.csv", "teapot"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_odd_runs_are_shown_or_named(run_poli, kind):
    in_folder("scans", 2)
    folder = odometry_run("run", path=str(Path("scans").resolve()))
    ODD[kind](folder)
    code, said = run_poli("view", "run", *PCA, "--out", "a.html")
    assert code in (0, 2), said
    assert harmless(said)
    if code == 2:
        assert "run" in said
    if kind.split(":")[0] in ("config.json", "map.ply", "poses_kitti.txt", "truth_kitti.txt") and "empty" not in kind:
        assert (code, kind.split(":")[0] in said) == (2, True), said


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\n", b"teapot\n1\n", b'"' + b"x" * 200_000 + b"\n1\n", b"HEAD\n1,2\n", b"HEAD\n" + b"x," * 15 + b"x\n"],
    ids=["not UTF-8", "other columns", "unterminated field", "too few columns", "words for numbers"],
)
def test_odd_steps_are_named(tmp_path, content):
    (tmp_path / "steps.csv").write_bytes(content.replace(b"HEAD", ",".join(_COLUMNS).encode()))
    with pytest.raises(FormatError, match=r"steps\.csv"):
        read_steps(tmp_path)
