"""Our odometry as a pipeline of evalio, called as evalio calls it."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("evalio")

from evalio import pipelines, types

import poli
from poli.errors import InputError
from poli.evalio import Poli, scan_of
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.se3 import inverse
from poli.worlds import Ride, World, find_sensor
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

COUNT = 6
START = 1_700_000_000_000_000_000  # nanoseconds
PERIOD = 100_000_000
T_IMU_LIDAR = np.array([[0.0, -1.0, 0.0, 0.3], [1.0, 0.0, 0.0, -0.2], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 1.0]])


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    """A skewed drive with a sensor small enough for a test."""
    beams = tmp_path_factory.mktemp("beams") / "small.txt"
    beams.write_text("# steps 600\n" + "\n".join(str(e) for e in np.linspace(-15.0, 15.0, 16)))
    world = World(make_place("town", 77))
    return Drive(world, find_sensor(str(beams)), Ride(start=20.0, speed=12.0), COUNT, 1, deskewed=False, movers=False)


def measurement(scan, number):
    """A scan in evalio's form: its stamp is that of the first point, and cells without a return are at the origin."""
    times = scan.fields["time"]
    points = [
        types.Point(x=x, y=y, z=z, t=types.Duration.from_sec(t))
        for (x, y, z), t in zip(scan.points.astype(float).tolist(), times.astype(float).tolist(), strict=True)
    ]
    return types.LidarMeasurement(types.Stamp.from_nsec(START + PERIOD * number), [types.Point(), *points])


def run(scans, **params):
    """As `evalio run` does for each experiment."""
    pipeline = Poli()
    assert not pipeline.set_params(params)
    pipeline.set_imu_params(types.ImuParams())
    pipeline.set_lidar_params(types.LidarParams(num_rows=16, num_columns=600, min_range=1.0, max_range=80.0))
    pipeline.set_imu_T_lidar(types.SE3.from_mat(np.asfortranarray(T_IMU_LIDAR)))
    pipeline.initialize()
    assert pipeline.map() == {"ellipsoids": []}
    found = []
    for number, scan in enumerate(scans):
        pipeline.add_imu(types.ImuMeasurement(types.Stamp.from_nsec(START), np.zeros(3), np.zeros(3)))
        pipeline.add_lidar(measurement(scan, number))
        found += pipeline.saved_estimates()
    return pipeline, [stamp.to_nsec() for stamp, _ in found], np.stack([pose.to_mat() for _, pose in found])


def test_its_poses_are_those_of_the_odometer(drive):
    pipeline, stamps, found = run(drive)
    assert stamps == [START + PERIOD * number for number in range(COUNT)]
    odometer = poli.Odometer(poli.OdometryConfig(deskew=True, min_range=1.0, max_range=80.0, on_loss="restart"))
    for stamp, scan in zip(stamps, drive, strict=True):
        odometer.add(poli.Scan(scan.points.astype(float), {"time": scan.fields["time"].astype(float)}, stamp))
    wanted = odometer.poses @ inverse(T_IMU_LIDAR)
    np.testing.assert_allclose(found, wanted, atol=1e-6)  # times are whole nanoseconds
    assert relative_errors(found @ T_IMU_LIDAR, drive.poses).max.translation < 0.05  # of 1.2 m per scan
    assert len(pipeline.map()["ellipsoids"]) > 500
    assert np.abs(run(drive, deskew=False)[2] - wanted)[:, :3, 3].max() > 0.01


def test_a_measurement_becomes_a_scan_without_empty_cells(drive):
    scan = scan_of(measurement(next(iter(drive)), 3))
    np.testing.assert_array_equal(scan.points, next(iter(drive)).points)
    np.testing.assert_allclose(scan.fields["time"], next(iter(drive)).fields["time"], atol=1e-9)
    assert scan.stamp == START + 3 * PERIOD
    assert scan.dropped.zero == 1
    assert len(scan_of(types.LidarMeasurement(types.Stamp.from_nsec(START)))) == 0


def test_evalio_accepts_its_parameters():
    assert pipelines.validate_params(Poli, {"voxel": 0.5, "model": "pca", "deskew": False, "patience": 3}) is None
    assert isinstance(pipelines.validate_params(Poli, {"voxels": 0.5}), pipelines.UnusedPipelineParam)
    pipeline = Poli()
    assert pipeline.set_params({**Poli.default_params(), "voxels": 0.5}) == {"voxels": 0.5}
    pipeline.set_params({"against": "nothing"})
    with pytest.raises(InputError, match="against is 'nothing'"):
        pipeline.initialize()
    pipeline.set_params({"against": "map", "max_range": 0.5})
    pipeline.set_lidar_params(types.LidarParams(num_rows=16, num_columns=600, min_range=1.0, max_range=80.0))
    with pytest.raises(InputError, match=r"max_range is 0.5 m, but the sensor measures from 1.0 m"):
        pipeline.initialize()


def test_the_command_of_evalio_knows_it(tmp_path):
    environment = {**os.environ, "EVALIO_CUSTOM": "poli.evalio", "COLUMNS": "200"}
    command = [sys.executable, "-c", "from evalio.cli import app; app()", "ls", "pipelines", "--search", "poli"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert "poli" in done.stdout
    assert poli.__version__ in done.stdout
    assert "on_loss" in done.stdout
