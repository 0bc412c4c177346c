"""POLI: point clouds as fields of Gaussian ellipsoids.

import poli

scan = poli.read("scan.pcd")          # Scan; (N, 3) arrays are accepted wherever a Scan is
scans = poli.dataset("kitti", path, sequence="07")        # scans in order, with their poses
field = poli.estimate(points, model="objects")            # Ellipsoids: one Gaussian per point, from a trained network
field = poli.pca(scan, k=24)          # the hand-crafted baseline, same type
scan = poli.voxel_downsample(scan, 0.5)                   # one point per voxel of half a meter
dense = poli.densify(scan, per_point=7)                  # Scan: the originals first, then samples of their ellipsoids
result = poli.register(source, target)                   # the pose between two clouds of one object
poses = poli.odometry(scans, voxel=0.5)                  # (M, 4, 4), each T_world_scan, world = the first scan
beams = poli.calibrate(scans).calibration                # BeamCalibration: constant errors of the beams; beams.apply(scan)
pose = poli.certify.solve(source, target, information)   # matched points and (N, 3, 3) weights; proven optimal
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "BeamCalibration", "CalibrateConfig",
    "DensifyConfig", "Ellipsoids", "GicpConfig", "Odometer", "OdometryConfig", "PoliError", "Scan", "ScanPreset", "SearchConfig",
    "Spin", "__version__", "calibrate", "certify", "dataset", "densify", "estimate", "gicp", "odometry", "pca", "read", "register",
    "se3",
    "voxel_downsample", "write",
]  # fmt: skip

if TYPE_CHECKING:
    from poli.beams.calibrate import calibrate
    from poli.beams.corrections import BeamCalibration, Spin
    from poli.configs import CalibrateConfig, DensifyConfig, OdometryConfig
    from poli.densification.densify import densify
    from poli.ellipsoids import Ellipsoids
    from poli.errors import PoliError
    from poli.estimation.estimate import estimate
    from poli.estimation.pca import pca
    from poli.io.datasets import dataset
    from poli.io.formats import read, write
    from poli.lidar_odometry import Odometer, odometry
    from poli.lidar_odometry.gicp import GicpConfig, gicp
    from poli.registration import ScanPreset, SearchConfig
    from poli.registration.register import register
    from poli.scan import Scan
    from poli.voxels import voxel_downsample

# Names are imported on first use: `import poli` costs little more than importing numpy, and loads no compiler.
_HOME = {
    "BeamCalibration": "poli.beams.corrections",
    "CalibrateConfig": "poli.configs",
    "DensifyConfig": "poli.configs",
    "Ellipsoids": "poli.ellipsoids",
    "GicpConfig": "poli.lidar_odometry.gicp",
    "Odometer": "poli.lidar_odometry",
    "OdometryConfig": "poli.configs",
    "PoliError": "poli.errors",
    "Scan": "poli.scan",
    "ScanPreset": "poli.registration",
    "SearchConfig": "poli.registration",
    "Spin": "poli.beams.corrections",
    "calibrate": "poli.beams.calibrate",
    "certify": "poli.certify",
    "dataset": "poli.io.datasets",
    "densify": "poli.densification",
    "estimate": "poli.estimation",
    "gicp": "poli.lidar_odometry.gicp",
    "odometry": "poli.lidar_odometry",
    "pca": "poli.estimation",
    "read": "poli.io.formats",
    "register": "poli.registration",
    "se3": "poli.se3",
    "voxel_downsample": "poli.voxels",
    "write": "poli.io.formats",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'poli' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_HOME[name])
    value = module if _HOME[name] == f"poli.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
