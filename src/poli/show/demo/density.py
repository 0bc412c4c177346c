"""The second step: a denser scan, and how far its new points are from the surfaces of the world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.data.simulate import World
from poli.scan import Scan
from poli.show.demo.timing import timed_again
from poli.tasks.densify import densify


@dataclass(frozen=True)
class DensityFigures:
    """Distances are to the nearest surface of the world, in metres."""

    returns: int
    samples: int
    returns_median: float  # what the sensor's own noise leaves
    samples_median: float
    samples_90: float  # nine of ten samples are nearer than this
    seconds: float

    @property
    def grown(self) -> float:
        return (self.returns + self.samples) / self.returns


def compare_density(scan: Scan, T_world_scan: np.ndarray, world: World) -> tuple[DensityFigures, Scan]:  # (4, 4)
    """`densify` with its defaults. The returns come first in the denser scan, then the samples."""
    dense, seconds = timed_again(lambda: densify(scan))
    off = world.distance(dense.points @ T_world_scan[:3, :3].T + T_world_scan[:3, 3])
    own, new = off[: len(scan)], off[len(scan) :]
    figures = DensityFigures(
        len(own), len(new), float(np.median(own)), float(np.median(new)), float(np.percentile(new, 90)), seconds
    )
    return figures, dense
