"""Livox' CustomMsg: decoded as rosbags does, read from bags, densified, and refused if damaged."""

import re
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import poli
from poli.cli import app
from poli.densification import DensifyConfig
from poli.densification.bags import densify_message
from poli.errors import FormatError
from poli.io.datasets import guess
from poli.io.messages import decode_livox, encode_livox
from tiny_livox import KINDS, PACKAGES, STAMP, STORES, livox_cloud, serialized, write_livox_bag

NAMES = ("offset_time", "x", "y", "z", "reflectivity", "tag", "line")
EVERYWHERE = ("--per-point", "3", "--max-sigma", "1", "--no-flat", "--max-thickness", "0", "--voxel", "0")


def columns(cloud):
    return {name: [getattr(point, name) for point in cloud.points] for name in NAMES}


def deserialized(kind, raw, package="livox_ros_driver2"):
    store = STORES[kind]
    return (store.deserialize_ros1 if kind == "ros1" else store.deserialize_cdr)(raw, f"{package}/msg/CustomMsg")


@given(kind=st.sampled_from(KINDS), points=st.integers(0, 9), frame=st.text("abc", max_size=9), little=st.booleans())
@settings(max_examples=60, deadline=None)
def test_decoded_as_rosbags_does(kind, points, frame, little):
    """For every alignment of the header, in both byte orders."""
    cloud = livox_cloud(kind, 5, points, frame)
    raw = serialized(kind, cloud, **({} if kind == "ros1" else {"little_endian": little}))
    found = decode_livox(raw, kind != "ros1")
    assert found.stamp == STAMP + 500_000_000
    for name, values in columns(deserialized(kind, raw)).items():
        np.testing.assert_array_equal(found.records[name], values, err_msg=name)
    assert encode_livox(found, found.records) == raw
    twice = deserialized(kind, encode_livox(found, np.concatenate([found.records, found.records])))
    assert twice.point_num == len(twice.points) == 2 * points
    assert (twice.timebase, twice.lidar_id, list(twice.rsvd)) == (cloud.timebase, 3, [7, 8, 9])
    assert repr(twice.points) == repr(2 * cloud.points)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("package", PACKAGES)
def test_bags_of_livox_sensors(tmp_path, kind, package):
    path = tmp_path / ("a.bag" if kind == "ros1" else "a")
    clouds = [livox_cloud(kind, i, package=package) for i in range(3)]
    write_livox_bag(path, kind, clouds, package)
    assert guess(path) == "bag"
    with poli.dataset("auto", path) as scans:
        assert (len(scans), scans.topic) == (3, "/livox/lidar")
        for number, (scan, cloud) in enumerate(zip(scans, clouds, strict=True)):
            expected = {name: np.delete(values, 1) for name, values in columns(cloud).items()}
            assert scan.stamp == STAMP + number * 100_000_000
            assert scan.dropped.zero == 1
            assert list(scan.fields) == ["intensity", "time", "ring", "tag"]
            np.testing.assert_array_equal(scan.points, np.stack([expected[axis] for axis in "xyz"], axis=1))
            np.testing.assert_allclose(scan.fields["time"], 1e-9 * expected["offset_time"])
            for name, source in {"intensity": "reflectivity", "ring": "line", "tag": "tag"}.items():
                np.testing.assert_array_equal(scan.fields[name], expected[source])
            assert scan.points.dtype == scan.fields["intensity"].dtype == np.float32


def without_definitions(path, data):
    """As ROS 2 Humble writes its bags."""
    with sqlite3.connect(data) as database:
        database.execute("DELETE FROM message_definitions")
        database.execute("UPDATE topics SET type_description_hash = ''")
    text = (path / "metadata.yaml").read_text()
    (path / "metadata.yaml").write_text(re.sub(r"type_description_hash:\s+\S+", "type_description_hash: ''", text))


def test_a_bag_without_definitions(tmp_path):
    clouds = [livox_cloud("sqlite3", i) for i in range(2)]
    without_definitions(tmp_path / "a", write_livox_bag(tmp_path / "a", "sqlite3", clouds, version=8))
    assert [len(scan) for scan in poli.dataset("bag", tmp_path / "a")] == [59, 59]


def fields_of(scan):
    return set(zip(*(values.tolist() for values in scan.fields.values()), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_densified_bags_of_livox_sensors(tmp_path, kind):
    path, out = (tmp_path / (f"{name}.bag" if kind == "ros1" else name) for name in ("a", "dense"))
    write_livox_bag(path, kind, [livox_cloud(kind, i) for i in range(2)])
    result = CliRunner().invoke(app, ["densify", *EVERYWHERE, str(path), str(out)])
    assert result.exit_code == 0, result.output
    with poli.dataset("bag", path) as scans, poli.dataset("bag", out) as dense:
        assert dense.topic == "/livox/lidar"
        for scan, thick in zip(scans, dense, strict=True):
            assert thick.stamp == scan.stamp
            assert len(thick) > 3 * len(scan)
            np.testing.assert_array_equal(thick.points[: len(scan)], scan.points)
            assert fields_of(thick) == fields_of(scan)  # a sample has the fields of its parent


def test_damaged_messages(tmp_path):
    for kind in KINDS:
        raw = serialized(kind, livox_cloud(kind, 1, 4))
        for cut in range(len(raw)):
            with pytest.raises(FormatError, match="here: not a readable Livox message"):
                densify_message((raw[:cut], "here"), DensifyConfig(), kind != "ros1", "livox_ros_driver2/msg/CustomMsg")
        with pytest.raises(FormatError, match="bytes"):
            densify_message((raw + bytes(4), "here"), DensifyConfig(), kind != "ros1", "livox_ros_driver2/msg/CustomMsg")
    write_livox_bag(tmp_path / "a.bag", "ros1", [livox_cloud("ros1", 1)], swap=lambda raw: raw[:-1])
    with pytest.raises(FormatError, match=r"a.bag: cannot be read at message 0 of 1 .*60 Livox points"):
        poli.dataset("bag", tmp_path / "a.bag")[0]
