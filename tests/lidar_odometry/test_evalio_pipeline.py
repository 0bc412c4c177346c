"""Our odometry as a pipeline of evalio: run as evalio runs it, on a dataset of its own kind."""

import os
import subprocess
import sys
from enum import auto

import numpy as np
import pytest

pytest.importorskip("evalio")

from evalio import datasets, pipelines, stats, types

import poli
from poli.errors import InputError
from poli.evalio import Poli, scan_of
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


def se3(T):
    return types.SE3.from_mat(np.asfortranarray(T))


def measurement(scan, number):
    """A scan in evalio's form: its stamp is that of the first point, and cells without a return are at the origin."""
    times = scan.fields["time"]
    points = [
        types.Point(x=x, y=y, z=z, t=types.Duration.from_sec(t))
        for (x, y, z), t in zip(scan.points.astype(float).tolist(), times.astype(float).tolist(), strict=True)
    ]
    return types.LidarMeasurement(types.Stamp.from_nsec(START + PERIOD * number), [types.Point(), *points])


class Iterator(datasets.DatasetIterator):
    def __init__(self, scans):
        self.scans = scans

    def __len__(self):
        return len(self.scans)

    def lidar_iter(self):
        return (measurement(scan, number) for number, scan in enumerate(self.scans))

    def imu_iter(self):
        return iter(())

    def __iter__(self):
        gyro = types.ImuMeasurement(types.Stamp.from_nsec(START), np.zeros(3), np.zeros(3))
        yield gyro
        yield from self.lidar_iter()


class Simulated(datasets.Dataset):
    town = auto()

    def data_iter(self):
        return Iterator(self.scans)

    def ground_truth_raw(self):
        stamps = [types.Stamp.from_nsec(START + PERIOD * number) for number in range(COUNT)]
        return types.Trajectory(stamps=stamps, poses=[se3(T) for T in self.poses])

    def imu_T_lidar(self):
        return se3(T_IMU_LIDAR)

    def imu_T_gt(self):
        return se3(T_IMU_LIDAR)

    def imu_params(self):
        return types.ImuParams()

    def lidar_params(self):
        return types.LidarParams(num_rows=16, num_columns=600, min_range=1.0, max_range=80.0)

    def files(self):
        return []


@pytest.fixture(scope="module")
def town(drive, tmp_path_factory):
    datasets.set_data_dir(tmp_path_factory.mktemp("data"))
    Simulated.town.scans, Simulated.town.poses = list(drive), drive.poses
    return Simulated.town


def run(dataset, **params):
    """As `evalio run` does for each experiment."""
    experiment = types.Experiment.from_pl_ds(Poli, dataset, **params)
    pipeline, sequence = experiment.setup()
    assert pipeline.map() == {"ellipsoids": []}
    found = types.Trajectory()
    for data in sequence:
        pipeline.add_imu(data) if isinstance(data, types.ImuMeasurement) else pipeline.add_lidar(data)
        for stamp, pose in pipeline.saved_estimates():
            found.append(stamp, pose)
    return pipeline, found


def errors(found, town):
    poses, true = (np.stack([pose.to_mat() for pose in track.poses]) for track in (found, town.ground_truth()))
    steps, wanted = (np.linalg.inv(T[:-1]) @ T[1:] for T in (poses, true))
    return np.linalg.norm((np.linalg.inv(wanted) @ steps)[:, :3, 3], axis=1)


def test_evalio_runs_it_on_a_dataset(town):
    pipeline, found = run(town)
    assert [stamp.to_nsec() for stamp in found.stamps] == [START + PERIOD * number for number in range(COUNT)]
    assert errors(found, town).max() < 0.05  # of 1.2 m per scan, in the frame of the IMU
    assert stats.ate(found, town.ground_truth()).trans.max() < 0.1
    assert len(pipeline.map()["ellipsoids"]) > 500


def test_its_poses_are_those_of_the_odometer(town):
    config = poli.OdometryConfig(deskew=True, min_range=1.0, max_range=80.0, on_loss="restart")
    odometer = poli.Odometer(config)
    for number, scan in enumerate(town.scans):
        odometer.add(poli.Scan(scan.points.astype(float), {"time": scan.fields["time"].astype(float)}, START + PERIOD * number))
    wanted = odometer.poses @ inverse(T_IMU_LIDAR)
    np.testing.assert_allclose([pose.to_mat() for pose in run(town)[1].poses], wanted, atol=1e-6)  # times are whole nanoseconds
    skewed = np.stack([pose.to_mat() for pose in run(town, deskew=False)[1].poses])
    assert np.abs(skewed - wanted)[:, :3, 3].max() > 0.01


def test_a_measurement_becomes_a_scan_without_empty_cells(town):
    scan = scan_of(measurement(town.scans[0], 3))
    np.testing.assert_array_equal(scan.points, town.scans[0].points)
    np.testing.assert_allclose(scan.fields["time"], town.scans[0].fields["time"], atol=1e-9)
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
