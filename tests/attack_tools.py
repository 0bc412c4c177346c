"""Building blocks of the attack tests: nasty names, and small inputs that carry them."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import poli
from poli.cli import main
from tiny_scans import room

# Sets the title, clears the screen, a C1 sequence, reverses the writing, ends the line, deletes, rich markup and a picture.
NASTY = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\n\x7f[red]:skull:"
NOT_UTF8 = os.fsdecode(b"\xff\xfe")
posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX names, owners and links")


@pytest.fixture
def run_poli(tmp_path, monkeypatch, capfd):
    """Run a command in a separate folder; returns its exit code and everything that the terminal received."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        told = capfd.readouterr()
        return ended.value.code, told.out + told.err

    return run


def harmless(said: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in said)


def in_folder(name: str, count: int = 3) -> Path:
    folder = Path(name)
    folder.mkdir()
    for number in range(count):
        poli.write(room(200, number), folder / f"{number}.ply")
    return folder


def bag(name: str, topic: str = "/points"):
    rosbags = pytest.importorskip("rosbags.rosbag1", reason="rosbags is not installed")
    from tiny_bags import CLOUD, STORES, cloud

    with rosbags.Writer(Path(name)) as writer:
        for suffix in ("", "_2"):
            connection = writer.add_connection(topic + suffix, CLOUD, typestore=STORES["ros1"])
            writer.write(connection, 1, STORES["ros1"].serialize_ros1(cloud("ros1", 0, 100), CLOUD))
    return name


PCA = ("--model", "pca")


def npz_field(name):
    scan = room(100)
    arrays = {"points": scan.points, name: np.zeros(len(scan))}
    np.savez("in.npz", **arrays)
    return "in.npz"


def text(name, content, encoding="utf-8"):
    Path(name).write_bytes(content.encode(encoding, "surrogateescape"))
    return name


def model(path, **metadata):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(1, np.float32)}, path, metadata)
    return path


def scan(name="a.ply", count=300):
    poli.write(room(count), name)
    return name


def nan(name):
    points = room().points.copy()
    points[0] = np.nan
    poli.write(points, name)
    return name


def odometry_run(place, **data):
    folder = Path(place)
    folder.mkdir()
    told = {"path": "nowhere", "dataset": "auto", "options": {}, "first": 0, "name": "drive", **data}
    (folder / "config.json").write_text(json.dumps({"data": told}))
    (folder / "poses_kitti.txt").write_text("1 0 0 0 0 1 0 0 0 0 1 0\n" * 3)
    return folder
