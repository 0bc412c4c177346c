"""Registration, odometry and densification with ellipsoids. None of it needs torch."""

from poli.tasks.fpfh import fpfh
from poli.tasks.gnc import RobustPose, gnc
from poli.tasks.matching import mutual_matches
from poli.tasks.pose_search import Registration, SearchConfig, register_by_normals
from poli.tasks.registration import register
from poli.tasks.scan_presets import PRESETS, ScanPreset
from poli.tasks.scan_registration import register_scans

__all__ = [
    "PRESETS", "Registration", "RobustPose", "ScanPreset", "SearchConfig", "fpfh", "gnc", "mutual_matches", "register",
    "register_by_normals", "register_scans",
]  # fmt: skip
