"""KITTI's odometry metric: errors over segments of the path, relative to their length (Geiger et al., CVPR 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poli.errors import InputError
from poli.tasks.trajectory_errors.pose_errors import PoseErrors, check_trajectories, motions_between, path_lengths, rotation_degrees
from poli.validation import real_array, whole_number

KITTI_LENGTHS = (100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0)  # meters


@dataclass(frozen=True)
class LengthErrors:
    """Mean errors of the segments of one length."""

    length: float  # meters
    translation: float  # percent
    rotation: float  # degrees per 100 m
    count: int


@dataclass(frozen=True, eq=False)
class SegmentErrors(PoseErrors):
    """Errors of each segment: `translation` in percent and `rotation` in degrees per 100 m. KITTI ranks by `mean`."""

    rows: np.ndarray  # (K, 2) first and last pose
    lengths: np.ndarray  # (K,) meters

    @property
    def by_length(self) -> tuple[LengthErrors, ...]:
        """Mean errors for each length that has segments, shortest first."""
        lines = []
        for length in np.unique(self.lengths):
            of_length = self.lengths == length
            translation, rotation = self.translation[of_length].mean(), self.rotation[of_length].mean()
            lines.append(LengthErrors(float(length), float(translation), float(rotation), int(of_length.sum())))
        return tuple(lines)


def segment_errors(
    estimated: np.ndarray,  # (M, 4, 4)
    truth: np.ndarray,  # (M, 4, 4)
    lengths: Sequence[float] = KITTI_LENGTHS,
    step: int = 10,
) -> SegmentErrors:
    """Return KITTI's segment errors. Segments begin at every `step`-th pose and end at the first pose more than a length away.

    Lengths are along the true path. Segments that do not fit are left out; if none fit, `count` is 0 and the means are NaN.
    """
    estimated, truth = check_trajectories(estimated, truth)
    meters = real_array(lengths, "lengths")
    if meters.ndim != 1 or not len(meters) or not (np.isfinite(meters) & (meters > 0)).all():
        raise InputError(f"lengths is {lengths!r}; expected one or more positive numbers of meters")
    traveled = path_lengths(truth)
    starts = np.arange(0, len(truth), whole_number(step, "step", 1))
    ends = np.searchsorted(traveled, traveled[starts, None] + meters, side="right")  # (starts, lengths)
    start_row, length_row = np.nonzero(ends < len(truth))
    first, last, length = starts[start_row], ends[start_row, length_row], meters[length_row]
    errors = motions_between(motions_between(truth[first], truth[last]), motions_between(estimated[first], estimated[last]))
    return SegmentErrors(
        translation=100.0 * np.linalg.norm(errors[:, :3, 3], axis=1) / length,
        rotation=100.0 * rotation_degrees(errors[:, :3, :3]) / length,
        rows=np.stack([first, last], axis=1),
        lengths=length,
    )
