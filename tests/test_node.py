"""The live node, with a stand-in for rclpy: its subscriptions, publications and parameters."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
import tiny_bags
from poli.cli import app
from poli.cli.node import serve
from poli.tasks.densify import DensifyConfig


class Node:
    def __init__(self):
        self.parameters, self.published, self.said = {}, [], []
        self.heard = self.changed = None

    def declare_parameter(self, name, value):
        self.parameters[name] = value

    def create_publisher(self, kind, topic, qos):
        self.target, self.target_qos = topic, qos
        return SimpleNamespace(publish=self.published.append)

    def create_subscription(self, kind, topic, callback, qos):
        self.source, self.heard, self.source_qos = topic, callback, qos

    def add_on_set_parameters_callback(self, callback):
        self.changed = callback

    def get_logger(self):
        return SimpleNamespace(info=self.said.append, warning=self.said.append)


@pytest.fixture
def node(monkeypatch):
    """Stand-ins for the ROS 2 modules that the node needs."""
    modules = {name: ModuleType(name) for name in ("rclpy", "rclpy.qos", "rcl_interfaces", "rcl_interfaces.msg", "sensor_msgs")}
    modules["sensor_msgs.msg"] = ModuleType("sensor_msgs.msg")
    modules["sensor_msgs.msg"].PointCloud2 = object
    modules["rcl_interfaces.msg"].SetParametersResult = SimpleNamespace
    modules["rclpy.qos"].QoSProfile = SimpleNamespace
    modules["rclpy.qos"].ReliabilityPolicy = SimpleNamespace(RELIABLE="reliable", BEST_EFFORT="best effort")
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    stand_in = Node()
    serve(stand_in, "/points", "/dense", DensifyConfig(per_point=3, max_thickness=10.0, voxel=0.0, model="pca"))
    return stand_in


def test_clouds_are_densified(node):
    cloud = tiny_bags.cloud("sqlite3", 1, points=60)
    before = np.array(cloud.data)
    node.heard(cloud)
    (dense,) = node.published
    assert (dense.height, dense.width, dense.row_step) == (1, 240, 240 * dense.point_step)
    assert bytes(dense.data[: len(before)]) == before.tobytes()  # originals first, bit for bit
    assert dense.header.frame_id == "lidar"
    assert (node.source, node.target) == ("/points", "/dense")
    assert (node.source_qos.reliability, node.target_qos.reliability) == ("best effort", "reliable")


def test_parameters_change_the_next_cloud(node):
    assert node.parameters["per_point"] == 3
    assert node.changed([SimpleNamespace(name="per_point", value=1), SimpleNamespace(name="use_sim_time", value=True)]).successful
    node.heard(tiny_bags.cloud("sqlite3", 1, points=60))
    assert node.published[0].width == 120
    refused = node.changed([SimpleNamespace(name="max_sigma", value=-1.0)])
    assert not refused.successful
    assert "max_sigma" in refused.reason


def test_clouds_that_cannot_be_densified_pass_through(node):
    empty = tiny_bags.cloud("sqlite3", 1, points=0)
    node.heard(empty)
    assert node.published[-1] is empty
    damaged = tiny_bags.cloud("sqlite3", 2, points=60)
    damaged.data = damaged.data[:100]
    node.heard(damaged)
    assert node.published[-1] is damaged
    assert "published unchanged" in node.said[-1]


def test_without_ros_the_error_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "rclpy", None)
    result = CliRunner().invoke(app, ["node"])
    assert result.exit_code != 0
    assert "setup.bash" in str(result.exception)
