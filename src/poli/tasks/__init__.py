"""What ellipsoids are good for. Nothing here needs torch."""

from poli.tasks.fpfh import fpfh
from poli.tasks.gnc import RobustPose, gnc
from poli.tasks.matching import mutual_matches
from poli.tasks.registration import Registration, Search, register, register_by_normals

__all__ = ["Registration", "RobustPose", "Search", "fpfh", "gnc", "mutual_matches", "register", "register_by_normals"]
