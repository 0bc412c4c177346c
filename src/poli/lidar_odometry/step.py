"""The pose of one scan, with its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from poli.errors import PoliError
from poli.lidar_odometry.degeneracy import UNITS
from poli.lidar_odometry.gicp import Alignment

_EXACT = 1e-12  # variance of the first pose, which defines the world; zero would not be invertible
STAGES = ("prepare", "estimate", "align", "map")  # stages that are timed


class Status(StrEnum):
    """How the pose of a scan was found."""

    FIRST = "first"  # its frame is the world frame
    TRACKED = "tracked"
    DEGENERATE = "degenerate"  # some directions are unconstrained and keep their predicted motion
    BRIDGED = "bridged"  # tracked across missing scans
    PREDICTED = "predicted"  # not aligned, because the scan has too few returns
    RESTARTED = "restarted"  # lost: a new map starts here


@dataclass(frozen=True, eq=False)
class Step:
    """The pose of one scan, and how it was found."""

    index: int
    stamp: int | None  # nanoseconds
    T_world_scan: np.ndarray  # (4, 4)
    status: Status
    note: str  # reason, if not simply tracked
    points: int  # after downsampling
    alignment: Alignment | None  # None if nothing was aligned
    seconds: Mapping[str, float]  # by stage, for the `STAGES` that were reached
    velocity: np.ndarray | None = None  # (6,) per second, for which the scan was deskewed; None: it was not, or is the first

    @property
    def trusted(self) -> bool:
        """Whether the surfaces determine the pose in every direction."""
        return self.status in (Status.FIRST, Status.TRACKED, Status.BRIDGED)

    @property
    def total_seconds(self) -> float:
        """The time that the scan took."""
        return float(sum(self.seconds.values()))

    @property
    def covariance(self) -> np.ndarray:  # (6, 6)
        """Covariance of the tangent xi = (rotation, translation) of T_world_scan Exp(xi).

        It is the error against the map, or the previous scan, and not the drift of the map, which odometry cannot see. Directions
        that the surfaces leave open, and all directions of a scan that was not aligned, have what a prediction at constant
        velocity leaves open: 2 degrees and 10 cm.
        """
        if self.status is Status.FIRST:
            return _EXACT * np.eye(6)
        if self.alignment is None or self.status in (Status.PREDICTED, Status.RESTARTED):
            return np.diag(UNITS**2)
        open_ = self.alignment.degeneracy.directions[self.alignment.degeneracy.weak]  # (k, 6)
        covariance = self.alignment.covariance + open_.T @ open_
        return 0.5 * (covariance + covariance.T)


class TrackingLost(PoliError):
    """A scan does not fit anywhere near its predicted pose. `poses` are those of the scans before it."""

    def __init__(self, index: int, why: str, poses: np.ndarray) -> None:
        super().__init__(
            f"scan {index}: {why}; the {len(poses)} poses before it remain valid; pass on_loss='restart' to continue with a new "
            "map from there"
        )
        self.index, self.why, self.poses = index, why, poses  # (index, 4, 4)
