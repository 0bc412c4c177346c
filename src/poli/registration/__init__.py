"""Global registration: the pose between two clouds without an initial guess, and whether it is right."""

from poli.registration.fpfh import fpfh
from poli.registration.gnc import RobustPose, gnc
from poli.registration.presets import PRESETS, ScanPreset, SearchConfig
from poli.registration.register import register
from poli.registration.search import Registration, mutual_matches, register_by_normals

__all__ = [
    "PRESETS", "Registration", "RobustPose", "ScanPreset", "SearchConfig", "fpfh", "gnc", "mutual_matches", "register",
    "register_by_normals",
]  # fmt: skip
