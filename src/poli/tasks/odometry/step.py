"""The pose of one scan, with its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from poli.errors import PoliError
from poli.tasks.gicp import Alignment

STAGES = ("prepare", "estimate", "align", "map")  # stages that are timed


class Status(StrEnum):
    FIRST = "first"  # its frame is the world frame
    TRACKED = "tracked"
    DEGENERATE = "degenerate"  # some directions are unconstrained and keep their predicted motion
    BRIDGED = "bridged"  # tracked across missing scans
    PREDICTED = "predicted"  # not aligned, because the scan has too few returns
    RESTARTED = "restarted"  # lost: a new map starts here


@dataclass(frozen=True, eq=False)
class Step:
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
        return self.status in (Status.FIRST, Status.TRACKED, Status.BRIDGED)


class TrackingLost(PoliError):
    """A scan does not fit anywhere near its predicted pose. `poses` are those of the scans before it."""

    def __init__(self, index: int, why: str, poses: np.ndarray) -> None:
        super().__init__(
            f"scan {index}: {why}; the {len(poses)} poses before it remain valid",
            argument="on_loss", value="restart", remedy="pass {argument} to continue with a new map from there",
        )  # fmt: skip
        self.index, self.why, self.poses = index, why, poses  # (index, 4, 4)
