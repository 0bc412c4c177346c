"""Registration, odometry and densification with ellipsoids. None of it needs torch."""

from poli.registration.fpfh import fpfh
from poli.registration.gnc import RobustPose, gnc
from poli.registration.presets import PRESETS, ScanPreset
from poli.registration.register import register, register_scans
from poli.registration.search import Registration, SearchConfig, mutual_matches, register_by_normals

__all__ = [
    "PRESETS", "Registration", "RobustPose", "ScanPreset", "SearchConfig", "fpfh", "gnc", "mutual_matches", "register",
    "register_by_normals", "register_scans",
]  # fmt: skip
