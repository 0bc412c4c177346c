"""How far a trajectory is from the truth: relative (RPE), absolute (APE), and KITTI's segments."""

from poli.tasks.trajectories.absolute import AbsoluteErrors, absolute_errors, umeyama
from poli.tasks.trajectories.relative import RelativeErrors, relative_errors
from poli.tasks.trajectories.segments import KITTI_LENGTHS, SegmentErrors, segment_errors

__all__ = [
    "KITTI_LENGTHS", "AbsoluteErrors", "RelativeErrors", "SegmentErrors", "absolute_errors", "relative_errors", "segment_errors",
    "umeyama",
]  # fmt: skip
