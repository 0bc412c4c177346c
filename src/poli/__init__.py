"""POLI: point clouds as fields of Gaussian ellipsoids.

import poli

scan = poli.read("scan.pcd")          # Scan; (N, 3) arrays are accepted wherever a Scan is
scans = poli.dataset("kitti", path, sequence="07")        # scans in order, with their poses
field = poli.estimate(points, model="objects")            # Ellipsoids: one Gaussian a point, by a trained network
field = poli.pca(scan, k=24)          # the hand-crafted rival, same type
dense = poli.densify(scan)            # Scan: the originals first, then samples of their ellipsoids
result = poli.register(source, target)                   # the pose between two clouds of one object
poses = poli.odometry(scans)                             # (M, 4, 4), each T_world_scan, world = the first scan
pose = poli.certify.solve(source, target, information)   # matched points and (N, 3, 3) weights; proven optimal
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Ellipsoids", "PoliError", "Scan", "__version__", "certify", "dataset", "densify", "estimate", "odometry", "pca", "read",
    "register", "se3", "write",
]  # fmt: skip

if TYPE_CHECKING:
    from poli import certify, se3
    from poli.data import read, write
    from poli.data.datasets import dataset
    from poli.ellipsoids import Ellipsoids
    from poli.errors import PoliError
    from poli.estimation import estimate, pca
    from poli.scan import Scan
    from poli.tasks import register
    from poli.tasks.densify import densify
    from poli.tasks.odometry import odometry

# Names load what they need when they are first used: `import poli` itself costs little more than numpy, and no compiler.
_HOME = {
    "Ellipsoids": "poli.ellipsoids",
    "PoliError": "poli.errors",
    "Scan": "poli.scan",
    "certify": "poli.certify",
    "dataset": "poli.data.datasets",
    "densify": "poli.tasks.densify",
    "estimate": "poli.estimation",
    "odometry": "poli.tasks.odometry",
    "pca": "poli.estimation",
    "read": "poli.data",
    "register": "poli.tasks",
    "se3": "poli.se3",
    "write": "poli.data",
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
