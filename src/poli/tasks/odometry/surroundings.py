"""What scans are aligned to: the map of the surroundings, or the last scan.

It is updated in the background, while the next scan is prepared and its ellipsoids are estimated. These do not need the map, and
the update is hard to split among threads itself. The results are the same as if it were updated at once.
"""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.tasks.gicp import Target
from poli.tasks.gicp_metric import GicpPoints
from poli.tasks.odometry.config import OdometryConfig
from poli.tasks.odometry.ellipsoid_map import EllipsoidMap
from poli.threads import in_background

# Meters that the sensor moves before the map is indexed again. This lowers drift: the ring pattern on the ground moves with the
# sensor, and aligning only to older scans keeps a scan from locking onto the pattern of the last one.
_INDEX_EVERY = 2.0
_INDEX_RANGES = 0.2  # times the median range: the same, where surfaces are near
_CELL = 0.3  # meters: cells of the map are half a voxel, but not smaller than this unless voxels are


class Surroundings:
    def __init__(self, config: OdometryConfig) -> None:
        self._config = config
        self._T_world_target = np.eye(4)
        self._map: EllipsoidMap | None = None
        self._target: Target | None = None
        self._indexed_at = np.zeros(3), 0
        self._pending: Future[None] | None = None

    @property
    def map(self) -> EllipsoidMap | None:
        self.settle()
        return self._map

    @property
    def target(self) -> Target | None:
        self.settle()
        return self._target

    @property
    def T_world_target(self) -> np.ndarray:  # (4, 4)
        self.settle()
        return self._T_world_target

    def settle(self) -> None:
        """Wait for the last update, and raise its error if it failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def remember(
        self, field: Ellipsoids, weighed: GicpPoints, T: np.ndarray, voxel: float, fresh: bool, unseen: bool
    ) -> None:  # (4, 4)
        """Add a scan. `fresh`: start again with it; `unseen`: it sees surfaces that are not indexed yet."""
        self.settle()
        self._pending = in_background(lambda: self._remember(field, weighed, T, voxel, fresh, unseen))

    def _remember(self, field: Ellipsoids, weighed: GicpPoints, T: np.ndarray, voxel: float, fresh: bool, unseen: bool) -> None:
        if self._config.against == "scan":
            self._target, self._T_world_target = Target(weighed), T
            return
        if self._map is None or fresh:
            cell = self._config.cell or min(voxel, max(0.5 * voxel, _CELL))
            self._map = EllipsoidMap(cell, self._config.radius, self._config.gicp.metric)
        self._map.add(field, T)
        moved = float(np.linalg.norm(T[:3, 3] - self._indexed_at[0]))
        far = moved > min(_INDEX_EVERY, _INDEX_RANGES * float(np.median(np.linalg.norm(field.means, axis=1))))
        renumbered = fresh or self._map.renumbered != self._indexed_at[1]
        if self._target is None or renumbered or far or unseen:
            changed, weighed = self._map.refresh(), self._map.weighed
            if self._target is None or renumbered:
                self._target = Target(weighed)
            else:
                self._target.update(weighed, changed)
            self._indexed_at = T[:3, 3].copy(), self._map.renumbered
