"""The live node, with a stand-in for rclpy and real definitions of ROS 2's messages: the three jobs, parameters, dropped clouds."""

import sys
import time
from copy import deepcopy
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
import tiny_bags
from poli.cli import app
from poli.densification import DensifyConfig
from poli.io.pointcloud2 import records_of_cloud
from poli.lidar_odometry import OdometryConfig
from poli.ros import DensifyJob, EstimateConfig, EstimateJob, Frames, OdometryJob, serve
from poli.ros.loop import Fatal, Log, Newest
from poli.ros.transport import Ros2

STORE = tiny_bags.STORES["sqlite3"]
PACKAGES = ("sensor_msgs", "nav_msgs", "geometry_msgs", "tf2_msgs", "builtin_interfaces")


def build(kind, **values):
    """A message whose other fields have their defaults, as rclpy builds it."""
    defaults = {}
    for name, (form, detail) in STORE.fielddefs[kind][1]:
        if form.name == "NAME":
            defaults[name] = build(detail)
        elif form.name == "BASE":
            defaults[name] = {"string": "", "bool": False}.get(detail[0], 0)
        else:
            defaults[name] = []
    return STORE.types[kind](**defaults | values)


class Node:
    """What the transport uses of rclpy's node. Messages are serialized as ROS 2 would do it, and read back."""

    def __init__(self):
        self.parameters, self.told, self.published, self.said, self.listeners = {}, {}, {}, [], 1
        self.heard = self.changed = None

    def declare_parameter(self, name, value):
        self.parameters[name] = self.told.get(name, value)
        return SimpleNamespace(value=self.parameters[name])

    def create_publisher(self, kind, topic, qos):
        self.target_qos, sent = qos, self.published.setdefault(topic, [])

        def publish(message):
            message, name = deepcopy(message), message.__msgtype__
            for field in ("data", "covariance"):  # rosbags takes numpy arrays only
                for part in (message, getattr(message, "pose", None), getattr(message, "twist", None)):
                    if isinstance(getattr(part, field, None), list) or hasattr(getattr(part, field, None), "tobytes"):
                        dtype = np.uint8 if field == "data" else np.float64
                        setattr(part, field, np.asarray(getattr(part, field), dtype))
            sent.append(STORE.deserialize_cdr(STORE.serialize_cdr(message, name), name))

        return SimpleNamespace(publish=publish, get_subscription_count=lambda: self.listeners)

    def create_subscription(self, kind, topic, callback, qos):
        self.source, self.heard, self.source_qos = topic, callback, qos

    def add_on_set_parameters_callback(self, callback):
        self.changed = callback

    def get_logger(self):
        return SimpleNamespace(info=self.said.append, warning=self.said.append)

    def get_clock(self):
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=5 * 10**9))

    def destroy_node(self):
        self.said.append("destroyed")


@pytest.fixture
def node(monkeypatch):
    """The stand-in's node. `spinning` runs in the thread that receives messages, until which ROS stays up."""
    stand_in = Node()
    stand_in.up, stand_in.spinning = True, lambda: None

    def shut_down():
        stand_in.up = False

    def spin(_):
        stand_in.spinning()
        shut_down()

    rclpy = ModuleType("rclpy")
    rclpy.init = lambda args, **_: setattr(stand_in, "arguments", args)
    rclpy.create_node, rclpy.ok, rclpy.try_shutdown, rclpy.spin = lambda _: stand_in, lambda: stand_in.up, shut_down, spin
    qos, interfaces = ModuleType("rclpy.qos"), ModuleType("rcl_interfaces.msg")
    qos.QoSProfile, qos.ReliabilityPolicy = SimpleNamespace, SimpleNamespace(RELIABLE="reliable", BEST_EFFORT="best effort")
    interfaces.SetParametersResult = SimpleNamespace
    modules = {"rclpy": rclpy, "rclpy.qos": qos, "rcl_interfaces": ModuleType("rcl_interfaces"), "rcl_interfaces.msg": interfaces}
    for package in PACKAGES:
        modules[package], modules[f"{package}.msg"] = ModuleType(package), ModuleType(f"{package}.msg")
        for kind in STORE.types:
            if kind.startswith(f"{package}/msg/"):
                make = lambda kind=kind, **values: build(kind, **values)  # noqa: E731
                setattr(modules[f"{package}.msg"], kind.rpartition("/")[2], make)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return stand_in


@pytest.fixture
def densify(node):
    transport = Ros2("poli_densify")
    config = DensifyConfig(per_point=3, max_thickness=10.0, voxel=0.0, model="pca")
    job = DensifyJob(transport, "/points", "/dense", config)
    transport.parameters(job.parameters(), job.change)
    return job


def test_clouds_are_densified(node, densify):
    cloud = tiny_bags.cloud("sqlite3", 1, points=60)
    before = np.array(cloud.data)
    assert not densify.process(cloud)
    (dense,) = node.published["/dense"]
    assert (dense.height, dense.width, dense.row_step) == (1, 240, 240 * dense.point_step)
    assert bytes(dense.data[: len(before)]) == before.tobytes()  # originals first, bit for bit
    assert dense.header.frame_id == "lidar"
    assert node.target_qos.reliability == "reliable"


def test_parameters_change_the_next_cloud(node, densify):
    assert node.parameters["per_point"] == 3
    assert node.changed([SimpleNamespace(name="per_point", value=1), SimpleNamespace(name="use_sim_time", value=True)]).successful
    densify.process(tiny_bags.cloud("sqlite3", 1, points=60))
    assert node.published["/dense"][0].width == 120
    refused = node.changed([SimpleNamespace(name="max_sigma", value=-2.0)])
    assert not refused.successful
    assert "max_sigma" in refused.reason


def test_parameters_of_a_launch_file_hold_from_the_start(node):
    node.told["per_point"] = 2
    transport = Ros2("poli_densify", ["--ros-args", "-p", "per_point:=2"])
    assert node.arguments == ["poli", "--ros-args", "-p", "per_point:=2"]
    job = DensifyJob(transport, "/points", "/dense", DensifyConfig(max_thickness=10.0, voxel=0.0, model="pca"))
    transport.parameters(job.parameters(), job.change)
    assert job.parameters()["per_point"] == 2


def test_clouds_that_cannot_be_densified_pass_through(node, densify):
    densify.process(tiny_bags.cloud("sqlite3", 1, points=0))
    assert node.published["/dense"][-1].width == 0
    damaged = tiny_bags.cloud("sqlite3", 2, points=60)
    damaged.data = damaged.data[:100]
    assert "published unchanged" in densify.process(damaged)
    assert len(node.published["/dense"][-1].data) == 100


def test_estimate_adds_fields_and_leaves_invalid_returns_out(node):
    job = EstimateJob(Ros2("poli_estimate"), "/points", "/out", EstimateConfig(model="pca", voxel=0.0))
    cloud = tiny_bags.cloud("sqlite3", 1, points=60, big=True)
    records_of_cloud(cloud, "")
    cloud.data[2:14] = 0  # x, y and z of the first point
    job.process(cloud)
    (found,) = node.published["/out"]
    records = records_of_cloud(found, "published")
    assert records.dtype.names[:7] == ("x", "y", "z", "intensity", "t", "ring", "tag")
    assert records.dtype.names[7:] == (
        "normal_x", "normal_y", "normal_z", "curvature", "cov_xx", "cov_xy", "cov_xz", "cov_yy", "cov_yz", "cov_zz",
    )  # fmt: skip
    assert len(records) == 59
    np.testing.assert_allclose(np.sqrt(sum(records[f"normal_{a}"] ** 2 for a in "xyz")), 1.0, rtol=1e-5)
    job.change({"voxel": 2.0})
    job.process(tiny_bags.cloud("sqlite3", 2, points=60))
    assert node.published["/out"][1].width < 60
    job.change({"model": "lidar", "voxel": 0.0, "curvature": True})
    job.process(tiny_bags.cloud("sqlite3", 3, points=60))
    assert records_of_cloud(node.published["/out"][2], "published").dtype.names[-2:] == ("curvature_1", "curvature_2")


@pytest.fixture
def odometry(node):
    frames = Frames(map_every=1e-9)
    return OdometryJob(Ros2("poli_odometry"), "/points", "/poli", OdometryConfig(model="pca", voxel=0.3, deskew="off"), frames)


def test_odometry_publishes_pose_transform_path_and_map(node, odometry):
    for number in range(3):
        odometry.process(tiny_bags.cloud("sqlite3", number, points=2000))
        odometry.after()
    poses = node.published["/poli/odometry"]
    assert [len(node.published[t]) for t in ("/poli/odometry", "/poli/path", "/poli/map", "/tf")] == [3, 3, 3, 3]
    assert (poses[0].header.frame_id, poses[0].child_frame_id) == ("odom", "lidar")
    assert abs(poses[2].pose.pose.position.x) < 0.1  # the sensor stands still
    covariance = poses[2].pose.covariance.reshape(6, 6)
    assert (np.diag(covariance) > np.diag(poses[0].pose.covariance.reshape(6, 6))).all()
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert node.published["/poli/map"][0].width > 100


def test_a_recording_that_starts_again_starts_odometry_again(node, odometry):
    for number in (20, 21):
        odometry.process(tiny_bags.cloud("sqlite3", number, points=2000))
    assert "starting again" in odometry.process(tiny_bags.cloud("sqlite3", 0, points=2000))
    assert np.diag(node.published["/poli/odometry"][2].pose.covariance.reshape(6, 6)).max() < 1e-9  # again a first pose


def test_odometry_can_end_the_node_when_it_is_lost(node):
    config = OdometryConfig(model="pca", voxel=0.3, deskew="off", patience=0, on_loss="stop")
    job = OdometryJob(Ros2("poli_odometry"), "/points", "/poli", config)
    job.process(tiny_bags.cloud("sqlite3", 0, points=2000))
    with pytest.raises(Fatal, match="on-loss restart"):
        job.process(tiny_bags.cloud("sqlite3", 1, points=10))


def test_the_loop_processes_until_ros_ends_and_tells_counts(node):
    transport = Ros2("poli_densify")
    job = DensifyJob(transport, "/points", "/dense", DensifyConfig(per_point=3, max_thickness=10.0, voxel=0.0, model="pca"))

    def spinning():
        node.heard(tiny_bags.cloud("sqlite3", 1, points=60))
        while not node.published["/dense"]:
            time.sleep(0.01)

    node.spinning = spinning
    serve(transport, lambda: job, "/points")
    assert (node.source, node.source_qos.reliability, node.source_qos.depth) == ("/points", "best effort", 1)
    assert any("ending after 1 clouds in, 1 out, 0 dropped, latency median" in line for line in node.said)
    assert node.said[-1] == "destroyed"


def test_the_newest_cloud_wins():
    clouds = Newest()
    for cloud in "abc":
        clouds.put(cloud)
    assert clouds.take(0.0)[0] == "c"
    assert clouds.take(0.0) is None
    assert (clouds.heard, clouds.dropped) == (3, 2)
    assert Log(clouds).summary() == "3 clouds in, 0 out, 2 dropped"


def test_repeated_warnings_are_counted():
    log = Log(Newest())
    assert log.warning("a") == "a"
    assert log.warning("b") == ""
    log._warned -= 60.0
    assert log.warning("c") == "c (1 more warnings were not shown)"


def test_without_ros_the_error_names_the_remedy(monkeypatch):
    monkeypatch.delenv("ROS_VERSION", raising=False)
    told = ((["densify"], "setup.bash"), (["odometry", "--ros", "2"], "rclpy"), (["estimate", "--ros", "1"], "python3-rospy"))
    for words, module in told:
        for name in ("rclpy", "rospy"):
            monkeypatch.setitem(sys.modules, name, None)
        result = CliRunner().invoke(app, ["node", *words])
        assert result.exit_code != 0
        assert module in str(result.exception)


def test_a_misspelt_job_is_refused():
    result = CliRunner().invoke(app, ["node", "densifi"])
    assert result.exit_code == 2
    assert "densify" in result.output
