"""ROS 1 bags before and after `poli densify`, handled by the real tools of ROS: Debian's package python3-rosbag."""

import shutil
import subprocess

import pytest

from plain_rosbag1 import chunks_of, read_rosbag1
from test_densify_bags import make, run

_ROSBAG, _PYTHON = shutil.which("rosbag"), "/usr/bin/python3"  # whose packages are the system's
pytestmark = pytest.mark.skipif(_ROSBAG is None, reason="the ROS 1 tools are not installed: apt install python3-rosbag")

_COUNT = """
import sys, rosbag
with rosbag.Bag(sys.argv[1]) as bag:
    print(sum(1 for _ in bag.read_messages()), bag.get_compression_info().compression)
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


def _called(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
