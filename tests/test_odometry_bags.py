"""`poli odometry` on recordings, with deskewing."""

import numpy as np
import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.io.trajectory_files import read_tum
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.worlds import Ride, Sensor, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
from test_bags import STAMP, STORES, write_bag

SENSOR = Sensor(tuple(np.linspace(-20.0, 15.0, 24)), steps=360, max_range=80.0, noise=0.01)


@pytest.fixture(scope="module")
def drive() -> Drive:
    return Drive(World(make_place("town", 1_000_123)), SENSOR, Ride(start=20.0, speed=12.0), 6, deskewed=False)


def message(kind, scan, number):
    """As drivers publish it: every point in the sensor's frame at the time of that point."""
    types = STORES[kind].types
    records = np.zeros(
        len(scan), [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("time", "<f4"), ("ring", "<u2")]
    )
    for a, name in enumerate("xyz"):
        records[name] = scan.points[:, a]
    records["time"], records["ring"] = scan.fields["time"], scan.fields["ring"]
    datatypes = {"<f4": 7, "<u2": 4}
    fields = [
        types["sensor_msgs/msg/PointField"](name=name, offset=offset, datatype=datatypes[dtype.str], count=1)
        for name, (dtype, offset) in records.dtype.fields.items()
    ]
    stamp = STAMP + number * 100_000_000
    extra = {"seq": number} if kind == "ros1" else {}
    header = types["std_msgs/msg/Header"](
        stamp=types["builtin_interfaces/msg/Time"](sec=stamp // 10**9, nanosec=stamp % 10**9), frame_id="lidar", **extra
    )
    step = records.dtype.itemsize
    data = np.frombuffer(records.tobytes(), np.uint8)
    return types["sensor_msgs/msg/PointCloud2"](
        header=header, height=1, width=len(scan), fields=fields, is_bigendian=False, point_step=step, row_step=step * len(scan),
        data=data, is_dense=True,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["ros1", "sqlite3", "mcap"])
def test_a_bag_is_tracked(tmp_path, drive, kind):
    bag = tmp_path / ("drive.bag" if kind == "ros1" else "drive")
    write_bag(bag, kind, [message(kind, scan, i) for i, scan in enumerate(drive)])
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["odometry", str(bag), "--voxel", "0.5", "--out", str(out)])
    assert result.exit_code == 0, result.output
    stamps, poses = read_tum(out / "poses_tum.txt")
    np.testing.assert_array_equal(stamps, STAMP + 100_000_000 * np.arange(6))
    assert relative_errors(poses, drive.poses).rmse.translation < 0.03
    assert "6 of 6 scans" in result.output
