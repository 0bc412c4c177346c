"""Errors of a trajectory against ground truth: relative (RPE), absolute (APE), and KITTI segments."""

from poli.tasks.trajectory_errors.absolute import AbsoluteErrors, absolute_errors, umeyama
from poli.tasks.trajectory_errors.relative import RelativeErrors, relative_errors
from poli.tasks.trajectory_errors.segments import KITTI_LENGTHS, SegmentErrors, segment_errors

__all__ = [
    "KITTI_LENGTHS", "AbsoluteErrors", "RelativeErrors", "SegmentErrors", "absolute_errors", "relative_errors", "segment_errors",
    "umeyama",
]  # fmt: skip
