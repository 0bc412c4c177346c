"""Tiny sequences in the real layouts of KITTI odometry and HeLiPR, simulated, for the tests of `python -m benchmarks paper`."""

from functools import cache
from pathlib import Path

import numpy as np

from poli.io.datasets.stamped import packed_layout
from poli.io.formats.bin import write_kitti_bin
from poli.scan import Scan
from poli.se3 import exp, inverse, quaternion
from poli.worlds import Ride, Sensor, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place
from tiny_sequences import line

COUNT = 6
STAMP = 1_691_936_000_000_000_000  # nanoseconds
PERIOD = 100_000_000
HDL64E = Sensor(tuple(np.linspace(-24.8, 2.0, 64)), 120, max_range=80.0, noise=0.02)
VLP16 = Sensor(tuple(np.linspace(-15.0, 15.0, 16)), 240, max_range=80.0, noise=0.02)
OS2 = Sensor(tuple(np.linspace(-11.0, 11.0, 32)), 180, max_range=80.0, noise=0.02)
T_CAMERA_LIDAR = exp(np.array([0.0, 0.0, 0.0, 0.1, -0.2, -0.3]))
T_CAMERA_LIDAR[:3, :3] = [[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]]


@cache
def town():
    return World(make_place("town", 2_000_003))


def drive(sensor, deskewed=True):
    return Drive(town(), sensor, Ride(), COUNT, deskewed=deskewed, movers=False)


def write_kitti_odometry(root: Path, name="04") -> np.ndarray:
    """One sequence as the archives of KITTI have it: poses of the camera, points ring by ring. Returns the poses of the LiDAR."""
    run, folder = drive(HDL64E), root / "sequences" / name
    (folder / "velodyne").mkdir(parents=True)
    (root / "poses").mkdir(exist_ok=True)
    for row, scan in enumerate(run):
        azimuth = np.mod(np.arctan2(scan.points[:, 1], scan.points[:, 0]), 2.0 * np.pi)
        points = scan.points[np.lexsort((azimuth, -scan.fields["ring"].astype(int)))].astype(np.float32)
        write_kitti_bin(folder / "velodyne" / f"{row:06d}.bin", Scan(points, {"intensity": np.zeros(len(points), np.float32)}))
    camera = T_CAMERA_LIDAR @ inverse(run.poses[0]) @ run.poses @ inverse(T_CAMERA_LIDAR)
    (root / "poses" / f"{name}.txt").write_text("".join(f"{line(T)}\n" for T in camera))
    (folder / "calib.txt").write_text(f"P0: {line(np.eye(4))}\nTr: {line(T_CAMERA_LIDAR)}\n")
    (folder / "times.txt").write_text("".join(f"{0.1 * row:e}\n" for row in range(COUNT)))
    return run.poses


def write_helipr(root: Path, name="DCC04", imu=True) -> np.ndarray:
    """One sequence of HeLiPR with two sensors, their poses, and the IMU. Returns the poses of the VLP-16."""
    for sensor, kind in (("Velodyne", VLP16), ("Ouster", OS2)):
        run, folder = drive(kind, deskewed=False), root / name / "LiDAR" / sensor
        folder.mkdir(parents=True)
        rows = []
        for row, (scan, T) in enumerate(zip(run, run.poses, strict=True)):
            stamp = STAMP + row * PERIOD
            records = np.zeros(len(scan), packed_layout(sensor.lower(), stamp))
            for column, axis in enumerate("xyz"):
                records[axis] = scan.points[:, column]
            records["ring"] = scan.fields["ring"]
            if sensor == "Velodyne":
                records["time"] = scan.fields["time"]
            else:
                records["t"] = np.rint(1e9 * scan.fields["time"])
            records.tofile(folder / f"{stamp}.bin")
            rows.append(f"{stamp} {' '.join(repr(float(v)) for v in (*T[:3, 3], *quaternion(T[:3, :3])))}\n")
        (root / name / "LiDAR_GT").mkdir(exist_ok=True)
        (root / name / "LiDAR_GT" / f"{sensor}_gt.txt").write_text("".join(rows))
    if imu:
        (root / name / "Inertial_data").mkdir()
        values = "0,0,0,1,0,0,0,0.01,0.02,0.03,0.1,0.2,9.81,1,2,3"
        rows = [f"{STAMP + k * PERIOD // 10},{values}\n" for k in range(10 * COUNT)]
        (root / name / "Inertial_data" / "xsens_imu.csv").write_text("".join(rows))
    return drive(VLP16).poses
