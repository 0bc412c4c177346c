"""Trajectory files: round trips, interrupted writers, damage."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import random_pose, seeds
from poli import se3
from poli.errors import FormatError, InputError
from poli.io.trajectory_files import TrajectoryWriter, read_kitti, read_tum


def poses_of_every_kind(rng):
    """Half turns and almost half turns about every axis make each part of a quaternion the largest, and vanish."""
    turns = [angle * axis for angle in (0.0, 1e-9, np.pi / 2, np.pi - 1e-7, np.pi) for axis in np.eye(3)]
    poses = [se3.exp(np.concatenate([turn, 1e3 * rng.standard_normal(3)])) for turn in turns]
    return np.array(poses + [random_pose(rng) for _ in range(10)])


@given(seeds, st.lists(st.integers(0, 2**63 - 1), min_size=25, max_size=25))
def test_round_trips(tmp_path_factory, seed, stamps):
    folder = tmp_path_factory.mktemp("trajectories")
    poses = poses_of_every_kind(np.random.default_rng(seed))
    with TrajectoryWriter(folder / "poses.tum", "tum") as tum, TrajectoryWriter(folder / "poses.txt", "kitti") as kitti:
        for T, stamp in zip(poses, stamps, strict=True):
            tum.append(T, stamp)
            kitti.append(T)
    read_stamps, read_poses = read_tum(folder / "poses.tum")
    assert read_stamps.dtype == np.int64
    np.testing.assert_array_equal(read_stamps, stamps)
    np.testing.assert_array_equal(read_poses[:, :3, 3], poses[:, :3, 3])
    np.testing.assert_allclose(read_poses, poses, atol=1e-12, rtol=0)
    np.testing.assert_array_equal(read_kitti(folder / "poses.txt"), poses)


def test_stamps_have_nine_decimals(tmp_path):
    with TrajectoryWriter(tmp_path / "poses.tum", "tum") as writer:
        for stamp in (0, 7, np.int64(1691936557946849179)):
            writer.append(np.eye(4), stamp)
    lines = (tmp_path / "poses.tum").read_text().splitlines()
    assert lines[0] == "0.000000000 0.0 0.0 0.0 0.0 0.0 0.0 1.0"
    assert [line.split()[0] for line in lines[1:]] == ["0.000000007", "1691936557.946849179"]


@pytest.mark.parametrize(
    ("word", "nanoseconds"),
    [("1", 10**9), ("1.5", 1_500_000_000), ("1305031102.1758", 1305031102175800000), ("1.5e3", 1500 * 10**9), (".25", 250_000_000)]
    + [("0.0000000014", 1), ("0.0000000016", 2), ("9223372036.854775807", 2**63 - 1), ("9223372036.8547758079", 2**63 - 1)],
)
def test_stamps_of_other_programs(tmp_path, word, nanoseconds):
    (tmp_path / "poses.tum").write_text(f"# timestamp tx ty tz qx qy qz qw\n\n{word} 1 2 3 0 0 0 1")
    stamps, poses = read_tum(tmp_path / "poses.tum")
    assert stamps.tolist() == [nanoseconds]
    assert poses[0, :3, 3].tolist() == [1, 2, 3]


def test_evo_reads_the_same_poses(tmp_path, rng):
    file_interface = pytest.importorskip("evo.tools.file_interface")
    poses = poses_of_every_kind(rng)
    with TrajectoryWriter(tmp_path / "poses.tum", "tum") as tum, TrajectoryWriter(tmp_path / "poses.txt", "kitti") as kitti:
        for row, T in enumerate(poses):
            tum.append(T, row * 10**8)
            kitti.append(T)
    trajectory = file_interface.read_tum_trajectory_file(str(tmp_path / "poses.tum"))
    np.testing.assert_allclose(trajectory.poses_se3, poses, atol=1e-9)
    np.testing.assert_allclose(trajectory.timestamps, np.arange(len(poses)) / 10)
    np.testing.assert_allclose(file_interface.read_kitti_poses_file(str(tmp_path / "poses.txt")).poses_se3, poses, atol=1e-12)


# --- interrupted


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_run_loses_nothing(tmp_path):
    program = """
import os, signal, sys, numpy as np
from poli.io.trajectory_files import TrajectoryWriter
writer = TrajectoryWriter(sys.argv[1], "kitti")
for row in range(7):
    writer.append(np.eye(4), row)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "poses.txt")], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert read_kitti(tmp_path / "poses.txt").shape == (7, 4, 4)


def test_a_partial_write_is_undone(tmp_path, rng):
    resource = pytest.importorskip("resource")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    poses = [random_pose(rng) for _ in range(10)]
    writer = TrajectoryWriter(tmp_path / "poses.txt", "kitti")
    writer.append(poses[0])
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(tmp_path / "poses.txt") + 20, limits[1]))
        with pytest.raises(FormatError, match="cannot be written"):
            writer.append(poses[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert len(read_kitti(tmp_path / "poses.txt")) == 1
    writer.append(poses[2])  # there is space again
    writer.close()
    np.testing.assert_array_equal(read_kitti(tmp_path / "poses.txt"), [poses[0], poses[2]])


@pytest.mark.parametrize("format", ["tum", "kitti"])
@pytest.mark.parametrize("removed", [1, 4, 30])
def test_a_truncated_line(tmp_path, rng, format, removed):
    path = tmp_path / "poses"
    with TrajectoryWriter(path, format) as writer:
        for row in range(3):
            writer.append(random_pose(rng), row)
    read = read_kitti if format == "kitti" else lambda *arguments, **options: read_tum(*arguments, **options)[1]
    assert len(read(path, complete=False)) == 3
    path.write_bytes(path.read_bytes()[:-removed])
    assert len(read(path, complete=False)) == 2
    if removed == 1:  # only the newline: many programs do not write a final one
        assert len(read(path)) == 3
    if removed == 30:
        with pytest.raises(FormatError, match=r"line 3 has .* truncated"):
            read(path)


# --- refused input


def test_nothing_is_overwritten_by_default(tmp_path):
    path = tmp_path / "poses.txt"
    path.write_text("precious")
    with pytest.raises(FormatError, match=r"already exists.*replace=True"):
        TrajectoryWriter(path, "kitti")
    assert path.read_text() == "precious"
    with TrajectoryWriter(path, "kitti", replace=True) as writer:
        writer.append(np.eye(4))
    assert len(read_kitti(path)) == 1


def test_unwritable_paths(tmp_path):
    with pytest.raises(FormatError, match=r"nowhere.*cannot be written"):
        TrajectoryWriter(tmp_path / "nowhere" / "poses.txt", "kitti")
    with pytest.raises(FormatError, match="cannot be written"):
        TrajectoryWriter(tmp_path, "kitti", replace=True)
    with pytest.raises(InputError, match="format is 'csv'"):
        TrajectoryWriter(tmp_path / "poses.csv", "csv")
    assert not (tmp_path / "poses.csv").exists()


def test_bad_poses_and_stamps_write_nothing(tmp_path):
    writer = TrajectoryWriter(tmp_path / "poses.tum", "tum")
    for T, stamp, says in [
        (np.eye(3), 1, "T has shape"),
        (2 * np.eye(4), 1, "T is not a rigid motion"),
        (np.eye(4), None, "stamp is missing"),
        (np.eye(4), 0.5, "stamp is 0.5"),
        (np.eye(4), -1, "stamp is -1"),
        (np.eye(4), 2**63, "below 2"),
    ]:
        with pytest.raises(InputError, match=says):
            writer.append(T, stamp)
    writer.close()
    assert (tmp_path / "poses.tum").read_bytes() == b""
    with pytest.raises(InputError, match="closed"):
        writer.append(np.eye(4), 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0.0 1 2 3 0 0 0 1\nlater 1 2 3 0 0 0 1\n", "line 2: 'later' .*stamp in seconds"),
        ("-1.0 1 2 3 0 0 0 1\n", "line 1: '-1.0' is not a stamp"),
        ("nan 1 2 3 0 0 0 1\n", "line 1: 'nan' is not a stamp"),
        ("1e999999999 1 2 3 0 0 0 1\n", "line 1.*not a stamp"),
        ("9223372036.854775808 1 2 3 0 0 0 1\n", "line 1.*not a stamp"),
        ("0.0 1 2 3 0 0 1\n", "line 1 has 6 .* expected 7"),
        ("0.0 1 2 3 0 0 0 0.9\n", "line 1: the quaternion has length 0.9"),
        ("0.0 1 2 inf 0 0 0 1\n", "line 1 .*finite number"),
    ],
)
def test_damaged_tum_files(tmp_path, text, says):
    (tmp_path / "poses.tum").write_text(text)
    with pytest.raises(FormatError, match=says):
        read_tum(tmp_path / "poses.tum")


def test_empty_and_missing_files(tmp_path):
    (tmp_path / "poses").write_text("# nothing yet\n")
    stamps, poses = read_tum(tmp_path / "poses")
    assert stamps.shape == (0,)
    assert poses.shape == read_kitti(tmp_path / "poses", complete=False).shape == (0, 4, 4)
    for read in (read_tum, read_kitti):
        with pytest.raises(FormatError, match="cannot be read"):
            read(tmp_path / "missing")
