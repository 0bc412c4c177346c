"""Odometry on a drive: poses of 40 simulated VLP-16 scans, against a map and from scan to scan, compared with the ground truth.

    python examples/odometry_on_a_drive.py [FOLDER]

To use your own data, replace the simulated drive by a dataset: scans = poli.dataset("kitti", path, sequence="07").
"""

# %% A drive through a campus not used for training
import sys
from pathlib import Path

import numpy as np

import poli
from poli.lidar_odometry.trajectory_errors import absolute_errors, relative_errors
from poli.worlds import SENSORS, Ride, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "example_output")
folder.mkdir(parents=True, exist_ok=True)

drive = Drive(World(make_place("campus", 2_000_001)), SENSORS["vlp16"], Ride(speed=8.0), count=40)
scans = list(drive)
truth = poli.se3.inverse(drive.poses[0]) @ drive.poses  # (M, 4, 4), in the frame of the first scan, like the odometry
meters = np.linalg.norm(np.diff(truth[:, :3, 3], axis=0), axis=1).sum()
print(f"{len(scans)} scans of {np.mean([len(scan) for scan in scans]):.0f} returns, {meters:.0f} m")

# %% The short way: all poses at once
poses = poli.odometry(scans)  # (M, 4, 4), each T_world_scan

# %% Scan by scan, with the status of each scan and the uncertainty of its pose
odometer = poli.Odometer(poli.OdometryConfig(voxel=0.5))
for scan in scans:
    step = odometer.add(scan)
    if not step.trusted:
        print(f"scan {step.index}: {step.status}, {step.note}")
assert step.alignment is not None
sigma = np.sqrt(np.diag(step.alignment.covariance))
print(f"the last pose, one sigma: {np.degrees(sigma[:3]).max():.3f} degrees, {100 * sigma[3:].max():.2f} cm")

# %% Errors against the ground truth
by_scan = poli.odometry(scans, against="scan", voxel=0.5)
for name, estimated in (("map, own voxel", poses), ("map, 0.5 m", odometer.poses), ("scan to scan, 0.5 m", by_scan)):
    each = relative_errors(estimated, truth).rmse
    end = absolute_errors(estimated, truth).translation[-1]
    print(f"{name}: {100 * each.translation:.2f} cm and {each.rotation:.3f} degrees per scan, {100 * end:.1f} cm error at the end")

# %% The map: fused ellipsoids in the world frame
assert odometer.map is not None
world = odometer.map.field
world.write_ply(folder / "map.ply")
np.save(folder / "poses.npy", odometer.poses)
print(f"{folder / 'map.ply'}: {len(world)} ellipsoids")
