"""`poli odometry` on recordings, with deskewing."""

import numpy as np
import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.io.trajectory_files import read_tum
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.worlds import Ride, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
from tiny_bags import SENSOR, STAMP, message, write_clouds


@pytest.fixture(scope="module")
def drive() -> Drive:
    return Drive(World(make_place("town", 1_000_123)), SENSOR, Ride(start=20.0, speed=12.0), 6, deskewed=False)


@pytest.mark.parametrize("kind", ["ros1", "sqlite3", "mcap"])
def test_a_bag_is_tracked(tmp_path, drive, kind):
    bag = tmp_path / ("drive.bag" if kind == "ros1" else "drive")
    write_clouds(bag, kind, [message(kind, scan, i) for i, scan in enumerate(drive)])
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["odometry", str(bag), "--voxel", "0.5", "--out", str(out)])
    assert result.exit_code == 0, result.output
    stamps, poses = read_tum(out / "poses_tum.txt")
    np.testing.assert_array_equal(stamps, STAMP + 100_000_000 * np.arange(6))
    assert relative_errors(poses, drive.poses).rmse.translation < 0.03
    assert "6 of 6 scans" in result.output
