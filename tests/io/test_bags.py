"""Recordings: bags of tiny clouds, written by rosbags, valid and damaged."""

import sqlite3
import struct
import sys

import numpy as np
import pytest

import poli
from poli.errors import FormatError, InputError, MissingExtra
from poli.io.datasets import Dataset, guess, open_bag
from poli.io.messages import scan_from_cloud, with_point_times
from poli.scan import Scan

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2

from tiny_bags import CLOUD, STAMP, STORES, write_clouds

FIELDS = [("x", 0, 7, 1), ("y", 4, 7, 1), ("z", 8, 7, 1), ("intensity", 12, 7, 1), ("t", 16, 6, 1), ("line", 20, 4, 1)]


def cloud(kind, number, stamp, points=3, height=1, padding=0, big=False, fields=FIELDS, layout="4fIH2x"):
    """A message whose points are (number, row, column), with increasing intensities and times; rows end in `padding` bytes."""
    types = STORES[kind].types
    order = ">" if big else "<"
    rows = []
    for r in range(height):
        row = b"".join(
            struct.pack(order + layout, number, r, c + 1, 10 * r + c, (10 * r + c) * 10_000_000, c) for c in range(points)
        )
        rows.append(row + b"\xff" * padding)
    data = np.frombuffer(b"".join(rows), np.uint8)
    step = struct.calcsize(order + layout)
    extra = {"seq": number} if kind == "ros1" else {}
    return types[CLOUD](
        header=types["std_msgs/msg/Header"](
            stamp=types["builtin_interfaces/msg/Time"](sec=stamp // 10**9, nanosec=stamp % 10**9), frame_id="lidar", **extra
        ),
        height=height,
        width=points,
        fields=[types["sensor_msgs/msg/PointField"](name=n, offset=o, datatype=d, count=c) for n, o, d, c in fields],
        is_bigendian=big,
        point_step=step,
        row_step=step * points + padding,
        data=data,
        is_dense=True,
    )


def simple_bag(tmp_path, kind, count=5):
    path = tmp_path / ("a.bag" if kind == "ros1" else "a")
    data = write_clouds(path, kind, [cloud(kind, i + 1, STAMP + i * 100_000_000) for i in range(count)])
    return path, data


@pytest.mark.parametrize("kind", STORES)
def test_bags_round_trip(tmp_path, kind):
    path, data = simple_bag(tmp_path, kind)
    for place in {path, data}:  # the folder, and the file inside it
        assert guess(place) == "bag"
        with poli.dataset("auto", place) as scans:
            assert isinstance(scans, Dataset)
            assert (len(scans), scans.poses, scans.topic) == (5, None, "/points")
            assert [scan.stamp for scan in scans] == [STAMP + i * 100_000_000 for i in range(5)]
            scan = scans[2]
            np.testing.assert_array_equal(scan.points, np.float32([[3, 0, 1], [3, 0, 2], [3, 0, 3]]))
            assert list(scan.fields) == ["intensity", "time", "ring"]
            np.testing.assert_array_equal(scan.fields["intensity"], [0, 1, 2])
            np.testing.assert_allclose(scan.fields["time"], [0, 0.01, 0.02])
            np.testing.assert_array_equal(scan.fields["ring"], [0, 1, 2])
        with pytest.raises(InputError, match="closed"):
            scans[0]


@pytest.mark.parametrize("kind", STORES)
def test_any_order_of_reading_gives_the_same_scans(tmp_path, kind):
    """Two clouds have the same recording time."""
    path = tmp_path / ("a.bag" if kind == "ros1" else "a")
    store = STORES[kind]
    writer = Writer1(path) if kind == "ros1" else Writer2(path, version=9, storage_plugin=StoragePlugin[kind.upper()])
    with writer:
        connection = writer.add_connection("/points", CLOUD, typestore=store)
        serialize = store.serialize_ros1 if kind == "ros1" else store.serialize_cdr
        for i, log_time in enumerate([10, 20, 20, 20, 30, 40]):
            writer.write(connection, log_time, serialize(cloud(kind, i + 1, STAMP + i), CLOUD))
    scans = open_bag(path)
    for row in (4, 1, 3, 2, 5, 0, -1, 3, 3, 4):
        assert scans[row].points[0, 0] == row % 6 + 1, row


def test_sequential_reading_is_one_pass(tmp_path, monkeypatch):
    path, _ = simple_bag(tmp_path, "ros1")
    scans = open_bag(path)
    passes = []
    messages = scans._reader.messages
    monkeypatch.setattr(scans._reader, "messages", lambda **given: passes.append(given) or messages(**given))
    assert len(list(scans)) == 5
    assert len(passes) == 1


def test_several_topics_are_listed(tmp_path):
    write_clouds(tmp_path / "a.bag", "ros1", [cloud("ros1", 1, STAMP)], ("/left", "/right"))
    with pytest.raises(InputError, match=r"point cloud topics: /left, /right; choose one as `topic`"):
        open_bag(tmp_path / "a.bag")
    assert len(open_bag(tmp_path / "a.bag", topic="/right")) == 1
    with pytest.raises(InputError, match=r"'/chatter' has type std_msgs/msg/String"):
        open_bag(tmp_path / "a.bag", topic="/chatter")
    with pytest.raises(InputError, match="'/up' is not in this bag"):
        open_bag(tmp_path / "a.bag", topic="/up")
    write_clouds(tmp_path / "b.bag", "ros1", [cloud("ros1", 1, STAMP)], ())
    with pytest.raises(InputError, match=r"none \(the topics are /chatter\)"):
        open_bag(tmp_path / "b.bag")


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("kind", STORES)
def test_a_bag_cut_in_the_middle_is_an_error_that_names_it(tmp_path, kind, share):
    path, data = simple_bag(tmp_path, kind, count=60)
    whole = data.read_bytes()
    data.write_bytes(whole[: int(share * len(whole))])
    for place in {path, data}:
        with pytest.raises(FormatError, match=rf"{place}: .*(truncated|is empty)"):
            list(open_bag(place))


def test_a_wrong_message_count_is_an_error(tmp_path):
    path, data = simple_bag(tmp_path, "sqlite3")
    with sqlite3.connect(data) as database:
        database.execute("DELETE FROM messages WHERE id IN (SELECT max(id) - 1 FROM messages)")
    scans = open_bag(path)
    assert len(scans[3]) == 3
    for _ in range(2):
        with pytest.raises(FormatError, match=r"5 messages of /points.* 4; it is truncated"):
            scans[4]
    metadata = path / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("message_count: 5", "message_count: 3"))
    with pytest.raises(FormatError, match="/points has more messages than the 3"):
        list(open_bag(path))


def test_stamps_that_do_not_increase_are_an_error(tmp_path):
    stamps = [STAMP, STAMP + 200_000_000, STAMP + 100_000_000]
    write_clouds(tmp_path / "a.bag", "ros1", [cloud("ros1", i + 1, t) for i, t in enumerate(stamps)])
    with pytest.raises(FormatError, match=r"message 2: its stamp .* do not ascend; pass stamps='log'"):
        list(open_bag(tmp_path / "a.bag"))
    scans = open_bag(tmp_path / "a.bag", stamps="log")
    assert [scan.stamp for scan in scans] == [STAMP + i * 100_000_000 + 5_000_000 for i in range(3)]
    with pytest.raises(InputError, match="stamps is"):
        open_bag(tmp_path / "a.bag", stamps="both")


def test_headers_without_a_stamp_use_the_recording_time(tmp_path):
    write_clouds(tmp_path / "a.bag", "ros1", [cloud("ros1", 1, 0)])
    assert open_bag(tmp_path / "a.bag")[0].stamp == STAMP + 5_000_000


def test_an_empty_cloud_is_an_empty_scan(tmp_path):
    write_clouds(tmp_path / "a.bag", "ros1", [cloud("ros1", 1, STAMP, points=0), cloud("ros1", 2, STAMP + 1)])
    assert [len(scan) for scan in open_bag(tmp_path / "a.bag")] == [0, 3]


# --- clouds


def test_organized_clouds_of_either_byte_order():
    for big in (False, True):
        scan = scan_from_cloud(cloud("sqlite3", 7, STAMP, points=4, height=3, padding=5, big=big), "here")
        np.testing.assert_array_equal(scan.points, [[7, r, c + 1] for r in range(3) for c in range(4)])
        np.testing.assert_array_equal(scan.fields["t"], [(10 * r + c) * 10_000_000 for r in range(3) for c in range(4)])
        assert scan.fields["t"].dtype == np.uint32
        assert scan.points.dtype == np.float32


def test_fields_of_several_numbers_and_overlapping_ones():
    fields = [*FIELDS[:3], ("pair", 8, 7, 2), ("", 16, 6, 1), ("one", 20, 4, 0)]
    scan = scan_from_cloud(cloud("sqlite3", 7, STAMP, fields=fields, big=True), "here")
    np.testing.assert_array_equal(scan.fields["pair"], [[1, 0], [2, 1], [3, 2]])
    np.testing.assert_array_equal(scan.fields["one"], [0, 1, 2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 4}, "need 96 bytes.* 72"),
        ({"height": 2}, "2 rows of 3 points"),
        ({"height": 2, "row_step": 10}, "row step 10"),
        ({"point_step": 20}, "'line' ends at byte 22 of points of 20 bytes"),
        ({"fields": []}, "no column 'x'"),
    ],
)
def test_damaged_clouds_are_errors(change, message):
    damaged = cloud("sqlite3", 7, STAMP)
    for name, value in change.items():
        setattr(damaged, name, value)
    with pytest.raises(FormatError, match=f"here: .*{message}"):
        scan_from_cloud(damaged, "here")


def test_unknown_types_and_doubled_names_are_errors():
    for fields, message in (([("x", 0, 77, 1)], "unknown type 77"), ([FIELDS[0], FIELDS[0]], "two fields are called 'x'")):
        with pytest.raises(FormatError, match=message):
            scan_from_cloud(cloud("sqlite3", 7, STAMP, fields=fields), "here")


# --- times

OFFSETS = np.array([0.0, 0.025, 0.05, 0.1])


@pytest.mark.parametrize(
    ("name", "values", "unit"),
    [
        ("time", OFFSETS.astype(np.float32), None),  # Velodyne
        ("t", (OFFSETS * 1e9).astype(np.uint32), None),  # Ouster
        ("offset_time", (OFFSETS * 1e9).astype(np.uint32), None),  # Livox
        ("timestamp", STAMP * 1e-9 + OFFSETS, None),  # Hesai, Robosense: seconds since 1970
        ("timestamp", STAMP + OFFSETS * 1e9, None),  # Livox: nanoseconds since 1970, as double
        ("timestamp", STAMP + (OFFSETS * 1e9).astype(np.uint64), None),
        ("t", (OFFSETS * 1e6).astype(np.uint32), "us"),
        ("time", (OFFSETS * 1e3).astype(np.float32), "ms"),
    ],
)
def test_times_become_seconds_from_the_stamp(name, values, unit):
    scan = with_point_times(Scan(np.ones((4, 3)), {name: values}, stamp=STAMP), unit, "here")
    np.testing.assert_allclose(scan.fields["time"], OFFSETS, atol=5e-7)
    assert list(scan.fields) == ["time"]


@pytest.mark.parametrize(
    "values",
    [
        (OFFSETS * 1e6).astype(np.uint32),  # microseconds interpreted as a tenth of a millisecond
        (OFFSETS * 1e6).astype(np.float32),
        (STAMP * 1e-9 + OFFSETS).astype(np.float32),
        STAMP * 1e-9 - 3600.0 + OFFSETS,  # of another clock
    ],
)
def test_implausible_times_are_errors(values):
    with pytest.raises(FormatError, match=r"here: the times in field 't' .*pass a time_unit"):
        with_point_times(Scan(np.ones((4, 3)), {"t": values}, stamp=STAMP), None, "here")


def test_times_of_missing_returns_do_not_matter():
    values = np.array([np.nan, 0.0, 0.1], np.float32)
    scan = with_point_times(Scan(np.ones((3, 3)), {"time": values}, stamp=STAMP), None, "here")
    np.testing.assert_allclose(scan.fields["time"], values)


def test_unknown_units_and_paths(tmp_path):
    with pytest.raises(InputError, match="time_unit is 'min'"):
        open_bag(tmp_path, time_unit="min")
    with pytest.raises(FormatError, match="no such file"):
        open_bag(tmp_path / "a.bag")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(FormatError, match=r"expected a \.bag"):
        open_bag(tmp_path / "a.txt")


def test_without_rosbags_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rosbags", None)
    with pytest.raises(MissingExtra, match=r"poli\[ros\]"):
        open_bag(tmp_path / "a.bag")
