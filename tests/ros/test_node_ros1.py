"""The live node with the real ROS 1: a master, `rosbag play`, `rosbag record`. What it publishes equals the offline result."""

import re
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
from rosbags.highlevel import AnyReader

import ros1
from poli import DensifyConfig, Scan
from poli.densification.bags import densify_cloud
from poli.io.formats.numpy_files import records_from_scan
from poli.io.messages import scan_from_cloud, scan_from_message
from poli.io.pointcloud2 import records_of_cloud, stamp_of_cloud
from poli.lidar_odometry import Odometer, OdometryConfig
from poli.ros.jobs import EstimateConfig, ellipsoid_columns, estimate_scan
from poli.ros.odometry_job import fixed_axes
from poli.se3 import quaternion
from poli.worlds import Ride, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place
from tiny_bags import SENSOR, message, write_clouds

TOPICS = ("/dense", "/estimated", "/poli/odometry", "/poli/path", "/poli/map", "/tf")
EXAMPLES = Path(__file__).parents[2] / "examples"
SCANS = 8
LEAST = 3  # clouds that are not dropped, even on a machine with much else to do


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """All three jobs listen while a bag is played. Returns the input, what was recorded of each topic, and what the nodes said."""
    folder = tmp_path_factory.mktemp("ros")
    with ros1.Master(folder) as master:
        drive = Drive(World(make_place("town", 1_000_123)), SENSOR, Ride(start=20.0, speed=12.0), SCANS, deskewed=False)
        write_clouds(folder / "drive.bag", "ros1", [message("ros1", scan, i) for i, scan in enumerate(drive)])
        master.call("setParam", "/poli_densify/per_point", 2)
        nodes = {
            "densify": master.poli("densify", "densify", "--in", "/points", "--out", "/dense", "--voxel", "0.3"),
            # As roslaunch calls it: with a remapping, and a name of its choice.
            "estimate": master.poli(
                "estimate", "estimate", "--in", "/raw", "--out", "/estimated", "--voxel", "0.4", "/raw:=/points", "__name:=other"
            ),
            "odometry": master.poli("odometry", "odometry", "--voxel", "0.5", "--map-every", "0.1"),
        }
        recorder = master.start("record", "rosbag", "record", "-O", "out.bag", *TOPICS)
        master.wait(lambda: len(master.subscribers("/points")) == 3 and all(master.subscribers(topic) for topic in TOPICS))
        player = master.start("play", "rosbag", "play", "-q", "--delay", "1", "--rate", "0.3", "drive.bag", "--topics", "/points")
        assert player.wait(ros1.PATIENCE) == 0, master.said("play")
        names = {"densify": "/poli_densify", "estimate": "/other", "odometry": "/poli_odometry"}
        assert master.subscribers("/points") >= set(names.values())
        codes = {name: master.end(node) for name, node in nodes.items()}
        said = {name: master.said(name) for name in nodes}
        assert codes == dict.fromkeys(nodes, 0), said
        master.end(recorder)
        assert master.wait((folder / "out.bag").exists), master.said("record")
    return read(folder / "drive.bag"), read(folder / "out.bag"), said


def read(path):
    found = {}
    with AnyReader([path]) as reader:
        for connection, _, raw in reader.messages():
            found.setdefault(connection.topic, []).append(reader.deserialize(raw, connection.msgtype))
    return found


def by_stamp(messages):
    assert len({stamp_of_cloud(m) for m in messages}) == len(messages)
    return {stamp_of_cloud(m): m for m in messages}


@pytest.fixture
def clouds(played):
    return by_stamp(deepcopy(played[0]["/points"]))  # densifying changes them


def test_densify_equals_offline(played, clouds):
    dense = by_stamp(played[1]["/dense"])
    assert len(dense) >= LEAST
    for stamp, found in dense.items():
        wanted = clouds[stamp]
        before = wanted.width
        densify_cloud(wanted, DensifyConfig(per_point=2, voxel=0.3), "offline")  # per_point: the parameter on the server
        assert (found.width, found.point_step, found.header.frame_id) == (wanted.width, wanted.point_step, "lidar")
        assert wanted.width > before
        assert bytes(found.data) == bytes(wanted.data)


def test_estimate_equals_offline(played, clouds):
    estimated = by_stamp(played[1]["/estimated"])
    assert len(estimated) >= LEAST
    for stamp, found in estimated.items():
        scan, field = estimate_scan(scan_from_cloud(clouds[stamp], "offline"), EstimateConfig(voxel=0.4))
        wanted = records_from_scan(Scan(scan.points, {**scan.fields, **ellipsoid_columns(field, np.zeros(3))}), flat=False)
        records = records_of_cloud(found, "recorded")
        assert records.dtype == wanted.dtype
        assert records.tobytes() == wanted.tobytes()
        C = np.array([[records[f"cov_{min(a, b)}{max(a, b)}"] for b in "xyz"] for a in "xyz"]).transpose(2, 0, 1)
        normals = np.stack([records[f"normal_{a}"] for a in "xyz"], axis=1)
        thin = np.einsum("ni,nij,nj->n", normals, C.astype(float), normals)
        np.testing.assert_allclose(thin, field.eigenvalues[:, 0], rtol=1e-2, atol=1e-7)
        assert (np.einsum("ni,ni->n", normals, scan.points) <= 1e-5).all()  # normals face the sensor


def test_odometry_equals_offline(played, clouds):
    _, out, _ = played
    odometry, transforms = by_stamp(out["/poli/odometry"]), [m.transforms[0] for m in out["/tf"]]
    assert len(odometry) >= LEAST
    odometer, maps, steps = Odometer(OdometryConfig(voxel=0.5)), {}, {}
    for stamp in sorted(odometry):
        steps[stamp] = odometer.add(scan_from_message(clouds[stamp]))
        maps[stamp] = odometer.map.field.means
    for (stamp, found), transform in zip(odometry.items(), transforms, strict=True):
        T = steps[stamp].T_world_scan
        assert (found.header.frame_id, found.child_frame_id, transform.child_frame_id) == ("odom", "lidar", "lidar")
        assert stamp_of_cloud(transform) == stamp
        p, q = found.pose.pose.position, found.pose.pose.orientation
        np.testing.assert_array_equal([p.x, p.y, p.z], T[:3, 3])
        np.testing.assert_array_equal([q.x, q.y, q.z, q.w], quaternion(T[:3, :3]))
        p, q = transform.transform.translation, transform.transform.rotation
        np.testing.assert_array_equal([p.x, p.y, p.z, q.x, q.y, q.z, q.w], [*T[:3, 3], *quaternion(T[:3, :3])])
        covariance = fixed_axes(steps[stamp].covariance, T)
        np.testing.assert_array_equal(found.pose.covariance, covariance.ravel())
        assert np.linalg.eigvalsh(covariance).min() > 0
    assert abs(found.twist.twist.linear.x - 12.0) < 0.5  # the speed of the simulated car
    latest = out["/poli/map"][-1]
    records = records_of_cloud(latest, "recorded")
    points = np.stack([records[a] for a in "xyz"], axis=1)
    np.testing.assert_array_equal(points, maps[stamp_of_cloud(latest)].astype(np.float32))
    assert {"normal_x", "cov_xx", "cov_zz"} <= set(records.dtype.names)
    for pose in out["/poli/path"][-1].poses:
        assert pose.pose.position.x == odometry[stamp_of_cloud(pose)].pose.pose.position.x


def test_nodes_end_on_ctrl_c_and_tell_counts_and_latency(played):
    for name, text in played[2].items():
        assert f"{name}: listening to" in text
        assert "Traceback" not in text
        last = text.strip().splitlines()[-1]
        clouds_in, out, dropped = map(
            int, re.search(rf"{name}: ending after (\d+) clouds in, (\d+) out, (\d+) dropped", last).groups()
        )
        assert LEAST <= clouds_in <= SCANS
        assert out == clouds_in - dropped
        assert "latency median" in last


def test_the_node_ends_when_the_master_is_lost_and_parameters_change_before(tmp_path):
    with ros1.Master(tmp_path) as master:
        node = master.poli("node", "densify", "--model", "pca", "--log-every", "0")
        master.wait(lambda: master.subscribers("/points"))
        master.call("setParam", "/poli_densify/max_sigma", -2.0)
        master.wait(lambda: "max_sigma stays as it is" in master.said("node"))
        master.process.kill()
        assert node.wait(ros1.PATIENCE) == 2
        text = master.said("node")
        assert text.strip().splitlines()[-1].startswith("poli: poli node densify ended: the ROS master at")
        assert "Traceback" not in text
        again = master.poli("again", "estimate")
        assert again.wait(ros1.PATIENCE) == 2
        assert "start roscore" in master.said("again")


def test_the_launch_file_starts_the_jobs(tmp_path):
    if shutil.which("roslaunch") is None:
        pytest.skip("roslaunch is not installed")
    with ros1.Master(tmp_path) as master:
        program = f"program:=exec {sys.executable} -m poli node"
        master.start("launch", "roslaunch", str(EXAMPLES / "ros1" / "poli.launch"), "points:=/scan", "job:=estimate", program)
        master.wait(lambda: master.subscribers("/scan") == {"/poli_estimate"})
        assert master.call("getParam", "/poli_estimate/voxel") == 0.2


def test_the_cpp_example_compiles(tmp_path):
    compiler, source = shutil.which("g++"), EXAMPLES / "ros1" / "covariance_listener.cpp"
    if compiler is None or not Path("/usr/include/ros/ros.h").is_file():
        pytest.skip("no g++ or no libroscpp-dev")
    done = subprocess.run(
        [compiler, "-fsyntax-only", "-Wall", "-Wno-deprecated-declarations", source], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_launch_file_of_ros_2_is_python():
    compile((EXAMPLES / "ros2" / "poli.launch.py").read_text(), "poli.launch.py", "exec")
