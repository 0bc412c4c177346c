"""ROS 1 bags before and after `poli densify`, handled by the real tools of ROS: Debian's package python3-rosbag."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from test_densify_bags import make, run

from plain_rosbag1 import chunks_of, read_rosbag1

_ROSBAG, _PYTHON = shutil.which("rosbag"), "/usr/bin/python3"  # whose packages are the system's
pytestmark = pytest.mark.skipif(_ROSBAG is None, reason="the ROS 1 tools are not installed: apt install python3-rosbag")

_COUNT = """
import sys, rosbag
with rosbag.Bag(sys.argv[1]) as bag:
    print(sum(1 for _ in bag.read_messages()), bag.get_compression_info().compression)
"""

_LISTEN = """
import sys, threading, rospy
from sensor_msgs.msg import PointCloud2
heard, done = [], threading.Event()
def hear(cloud):
    heard.append(cloud.width)
    if len(heard) == int(sys.argv[1]):
        done.set()
rospy.init_node("listener", disable_signals=True)
rospy.Subscriber("/points", PointCloud2, hear, queue_size=50)
done.wait(120)
print(*heard)
"""


@pytest.mark.parametrize("compression", ["none", "bz2", "lz4"])
def test_the_tools_of_ros_read_densified_bags(tmp_path, compression):
    path, _ = make(tmp_path, "ros1", points=3000)
    if compression != "none":
        _called(_ROSBAG, "compress", f"--{compression}", path)
    assert {name for name, _ in chunks_of(path)} == {compression}
    out = tmp_path / "dense.bag"
    run(path, out, "--voxel", 0)
    assert _called(_ROSBAG, "check", out) == _called(_ROSBAG, "check", path)
    messages = len(read_rosbag1(out)[1])
    assert _called(_PYTHON, "-c", _COUNT, out).split() == [str(messages), compression]
    if compression != "none":  # every chunk is read and written again
        packed = read_rosbag1(out)
        _called(_ROSBAG, "decompress", out)
        assert read_rosbag1(out)[1] == packed[1]


@pytest.mark.skipif(not Path("/usr/lib/rosbag/play").exists() or not shutil.which("rosmaster"), reason="rosmaster is not installed")
@pytest.mark.parametrize("compression", ["none", "bz2", "lz4"])
def test_rosbag_play_publishes_densified_clouds(tmp_path, compression):
    path, _ = make(tmp_path, "ros1", points=300)
    if compression != "none":
        _called(_ROSBAG, "compress", f"--{compression}", path)
    run(path, tmp_path / "dense.bag", "--voxel", 0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ros = {"ROS_MASTER_URI": f"http://127.0.0.1:{port}", "ROS_IP": "127.0.0.1", "ROS_HOME": str(tmp_path / "ros")}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(["rosmaster", "--core", "-p", str(port)], env=os.environ | ros, **quiet) as master:
        try:
            _wait_for(port)
            words = [_PYTHON, "-c", _LISTEN, "4"]
            with subprocess.Popen(words, env=os.environ | ros, stdout=subprocess.PIPE, text=True) as listener:
                play = ("play", "--quiet", "--wait-for-subscribers", tmp_path / "dense.bag", "--topics", "/points")
                _called(_ROSBAG, *play, **ros)
                assert listener.communicate(timeout=150)[0].split() == 4 * ["2400"]
        finally:
            master.terminate()


def _wait_for(port):
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("rosmaster did not start")


def _called(*words, **variables):
    words = [str(word) for word in words]
    done = subprocess.run(words, env=os.environ | variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
