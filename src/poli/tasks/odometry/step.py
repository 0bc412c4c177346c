"""What is known of one scan's pose, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from poli.errors import PoliError
from poli.tasks.gicp import Alignment

STAGES = ("prepare", "estimate", "align", "map")  # what the time of a scan is told by


class Status(StrEnum):
    FIRST = "first"  # its frame is the world's
    TRACKED = "tracked"
    DEGENERATE = "degenerate"  # some direction was held by nothing, and goes on as before
    BRIDGED = "bridged"  # tracked across missing scans
    PREDICTED = "predicted"  # not seen, but expected: the scan has too few returns
    RESTARTED = "restarted"  # lost: a new map begins here


@dataclass(frozen=True, eq=False)
class Step:
    index: int
    stamp: int | None  # nanoseconds
    T_world_scan: np.ndarray  # (4, 4)
    status: Status
    note: str  # why, where it is not simply tracked
    points: int  # after voxels
    alignment: Alignment | None  # None where nothing was aligned
    seconds: Mapping[str, float]  # by stage, of those of `STAGES` that it came to

    @property
    def trusted(self) -> bool:
        return self.status in (Status.FIRST, Status.TRACKED, Status.BRIDGED)


class TrackingLost(PoliError):
    """A scan fits nowhere near where it is expected. `poses` are those of the scans before it."""

    def __init__(self, index: int, why: str, poses: np.ndarray) -> None:
        super().__init__(
            f"scan {index}: {why}; the {len(poses)} poses before it stand",
            argument="on_loss", value="restart", remedy="pass {argument} to go on with a new map from there",
        )  # fmt: skip
        self.index, self.why, self.poses = index, why, poses  # (index, 4, 4)
