"""`poli densify` on the three kinds of bags: pass-through messages, densified clouds, and resuming after a kill."""

import os
import re
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from test_densify_trees import CONFIG, EVERYWHERE, run

import poli
from poli.densification import DensifyConfig
from poli.densification.bags import densify_bag, look_into_bag
from poli.densification.resume import engine
from poli.errors import FormatError, InputError
from poli.io.messages import records_of_cloud
from tiny_bags import LAYOUT, QOS, STORES, cloud, contents, write_bag


def make(tmp_path, kind, name="a", **options):
    path = tmp_path / (f"{name}.bag" if kind == "ros1" else name)
    return path, write_bag(path, kind, **options)


def bytes_of(path):
    files = [path] if path.is_file() else sorted(path.iterdir())
    return {file.name if path.is_dir() else "": file.read_bytes() for file in files}


def check_clouds(before, after):
    assert len(before) == len(after)
    for (time_before, old), (time_after, new) in zip(before, after, strict=True):
        assert time_before == time_after
        assert repr((new.header, new.fields)) == repr((old.header, old.fields))  # from two readers: equal, but of different classes
        assert (new.is_bigendian, new.point_step) == (old.is_bigendian, 32)
        count = old.width * old.height
        assert (new.height, new.width, new.row_step, len(new.data)) == (1, 8 * count, 256 * count, 256 * count)
        assert new.is_dense == old.is_dense
        rows = new.data.reshape(-1, 32)
        originals = records_of_cloud(old, "").view(np.uint8).reshape(-1, 32)
        np.testing.assert_array_equal(rows[:count], originals)
        others = np.r_[0:2, 14:32]
        np.testing.assert_array_equal(rows[count:, others], np.repeat(originals[:, others], 7, axis=0))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", STORES)
def test_clouds_grow_and_other_messages_pass_through(tmp_path, kind, compressed):
    path, data = make(tmp_path, kind, compressed=compressed)
    out = tmp_path / ("dense.bag" if kind == "ros1" else "dense")
    said = run(path, out, "--voxel", 0)
    assert "4 of 4 scans" in said
    assert "points: 240 in, 1920 out, 8.00 times" in said
    before, after = contents(path), contents(out)
    assert before[0] == after[0]
    if kind != "ros1":
        assert after[0][0][4].offered_qos_profiles == [QOS]
    assert before[1] == after[1]
    assert len(after[1]) == 8
    check_clouds(before[2], after[2])
    with poli.dataset("bag", path) as scans, poli.dataset("bag", out) as dense:
        for scan, thick in zip(scans, dense, strict=True):
            assert thick.stamp == scan.stamp
            np.testing.assert_array_equal(thick.points[: len(scan)], scan.points)
            assert list(thick.fields) == list(scan.fields) == ["intensity", "time", "ring", "tag"]
            np.testing.assert_array_equal(thick.points[len(scan) :], poli.densify(scan, CONFIG).points[len(scan) :])
    if compressed and kind != "sqlite3":
        assert sum(map(len, bytes_of(out).values())) < sum(c.data.nbytes for _, c in after[2])
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, out.name])
    if kind != "ros1" and not compressed:  # the file inside the folder
        run(data, tmp_path / f"alone{data.suffix}", "--voxel", 0)
        assert (tmp_path / f"alone{data.suffix}").is_file()
        check_clouds(before[2], contents(tmp_path / f"alone{data.suffix}")[2])


def test_types_that_the_bag_does_not_define_pass_through(tmp_path):
    """As ROS 2 Humble writes its bags: no definitions, and one topic of an unknown type."""
    path, data = make(tmp_path, "sqlite3", version=8)
    with sqlite3.connect(data) as database:
        database.execute("DELETE FROM message_definitions")
        database.execute("UPDATE topics SET type = 'odd_msgs/msg/Odd', type_description_hash = '' WHERE name = '/chatter'")
    text = (path / "metadata.yaml").read_text().replace("std_msgs/msg/String", "odd_msgs/msg/Odd")
    (path / "metadata.yaml").write_text(re.sub(r"type_description_hash:\s+\S+", "type_description_hash: ''", text))
    run(path, tmp_path / "dense", "--voxel", 0)
    before, after = contents(path), contents(tmp_path / "dense")
    assert [c[:2] for c in after[0]] == [c[:2] for c in before[0]]
    assert after[0][1][1] == "odd_msgs/msg/Odd"
    assert after[1] == before[1]
    check_clouds(before[2], after[2])


@pytest.mark.parametrize(("options"), [{"height": 3, "points": 20, "padding": 5}, {"big": True}, {"points": 0}, {"points": 3}])
def test_clouds_of_every_shape(tmp_path, options):
    path, _ = make(tmp_path, "ros1", clouds=2, **options)
    run(path, tmp_path / "dense.bag", "--voxel", 0)
    before, after = contents(path)[2], contents(tmp_path / "dense.bag")[2]
    if options.get("points", 60) >= 16:
        check_clouds(before, after)
    else:
        assert [bytes(c.data) for _, c in before] == [bytes(c.data) for _, c in after]


def test_missing_returns_are_kept_and_have_no_samples(tmp_path):
    from poli.densification.bags import densify_message

    message = cloud("sqlite3", 1)
    message.data.view(LAYOUT)["x"][:9] = np.nan
    message.is_dense = False
    raw = STORES["sqlite3"].serialize_cdr(message, message.__msgtype__)
    done = densify_message((bytes(raw), "here"), CONFIG, ros2=True)
    assert (done.points_in, done.points_out) == (60, 60 + 7 * 51)
    with pytest.raises(FormatError, match="here: not a readable PointCloud2"):
        densify_message((bytes(raw)[:50], "here"), CONFIG, ros2=True)


@pytest.mark.parametrize("kind", STORES)
def test_two_processes_write_the_same_bytes(tmp_path, kind, two_processes):
    path, _ = make(tmp_path, kind, clouds=9)
    whole = {}
    with engine() as here:
        for name, doer in (("one", here), ("two", two_processes)):
            out = tmp_path / name / ("d.bag" if kind == "ros1" else "d")
            out.parent.mkdir()
            tallies = [tally.scans for tally in densify_bag(look_into_bag(path, out), out, CONFIG, doer)]
            assert tallies == list(range(1, 10))
            whole[name] = bytes_of(out)
    assert whole["one"] == whole["two"]


@pytest.mark.parametrize("kind", STORES)
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path, kind):
    path, _ = make(tmp_path, kind, clouds=12)
    out, whole = (tmp_path / name / ("d.bag" if kind == "ros1" else "d") for name in ("killed", "whole"))
    out.parent.mkdir()
    whole.parent.mkdir()
    run(path, whole, "--voxel", 0)
    # The sixth cloud kills the process, as kill -9 would.
    code = (
        "import os\nfrom poli.densification import resume\nfrom poli.cli import main\n"
        "write = resume.write_part\n"
        "resume.write_part = lambda part, raw: os.kill(os.getpid(), 9) if part.stem == '00000005' else write(part, raw)\n"
        "main()"
    )
    words = ["densify", *EVERYWHERE, str(path), str(out), "--voxel", "0", "--workers", "1"]
    assert subprocess.run([sys.executable, "-c", code, *words], check=False).returncode == -signal.SIGKILL
    assert not out.exists()
    unfinished = out.with_name(f"{out.name}.partial")
    assert len(list(unfinished.glob("*.part"))) == 5
    (unfinished / "00000002.part").write_bytes(b"damaged by a power cut")
    with pytest.raises(FormatError, match=r"partial: was written with other settings \(seed\); remove it, .* --overwrite"):
        run(path, out, "--voxel", 0, "--seed", 1)
    said = run(path, out, "--voxel", 0)
    assert "12 of 12 scans, 4 already done" in said
    assert bytes_of(out) == bytes_of(whole)
    assert not unfinished.exists()
    assert "already exists and was left unchanged; use --overwrite" in run(path, out, "--voxel", 0)
    run(path, out, "--voxel", 0, "--per-point", 1, "--overwrite")
    assert len(poli.dataset("bag", out)[0]) == 120


def test_only_the_same_run_reuses_finished_clouds(tmp_path):
    path, _ = make(tmp_path, "ros1")
    out = tmp_path / "dense.bag"

    def kept_of_two(config, **options):
        """How many of the first two clouds were reused; then the run is stopped."""
        steps = densify_bag(look_into_bag(path, out), out, config, here, **options)
        kept = [next(steps).kept for _ in range(2)][-1]
        with pytest.raises(FormatError, match="another run is writing it"):
            next(densify_bag(look_into_bag(path, out), out, config, here))
        steps.close()
        assert not out.exists()
        return kept

    with engine() as here:
        assert [kept_of_two(CONFIG), kept_of_two(CONFIG)] == [0, 2]
        assert kept_of_two(DensifyConfig(seed=1), overwrite=True) == 0
        assert kept_of_two(DensifyConfig(seed=1)) == 2
        os.utime(path)  # the bag has changed
        with pytest.raises(FormatError, match=r"other settings \(files\)"):
            kept_of_two(DensifyConfig(seed=1))
        (tmp_path / "dense.bag.partial" / "run.json").unlink()  # while being removed
        assert kept_of_two(CONFIG, resumable=False) == 0
        assert not (tmp_path / "dense.bag.partial").exists()


def test_the_topic_is_guessed_or_required(tmp_path):
    from rosbags.rosbag1 import Writer

    path, store = tmp_path / "a.bag", STORES["ros1"]
    with Writer(path) as writer:
        for topic in ("/left", "/right"):
            connection = writer.add_connection(topic, "sensor_msgs/msg/PointCloud2", typestore=store)
            writer.write(connection, 1, store.serialize_ros1(cloud("ros1", 1), "sensor_msgs/msg/PointCloud2"))
    with pytest.raises(InputError, match=r"point cloud topics: /left, /right; choose one as `topic`$"):
        run(path, tmp_path / "b.bag")
    with pytest.raises(InputError, match="'/up' is not in this bag"):
        run(path, tmp_path / "b.bag", "--topic", "/up")
    run(path, tmp_path / "b.bag", "--topic", "/right", "--voxel", 0)
    sizes = [len(poli.dataset("bag", tmp_path / "b.bag", topic=topic)[0]) for topic in ("/left", "/right")]
    assert sizes == [60, 480]


@pytest.mark.parametrize("kind", STORES)
def test_bad_bags(tmp_path, kind):
    path, data = make(tmp_path, kind, clouds=20)
    wrong = tmp_path / ("b.mcap" if kind != "mcap" else "b.bag")
    with pytest.raises(FormatError, match="the input is a"):
        run(path, wrong)
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    out = tmp_path / ("b.bag" if kind == "ros1" else "b")
    with pytest.raises(FormatError, match=r"cut off|truncated"):
        run(path, out)
    assert not out.exists()
