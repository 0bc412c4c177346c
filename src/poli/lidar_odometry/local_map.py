"""The map around the sensor: cells of fused ellipsoids, and the index that scans are aligned to."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np

from poli.configs import OdometryConfig
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kernel import kernel
from poli.lidar_odometry.matching import Metric, Target, WeightedPoints
from poli.lidar_odometry.tuned import CELL, FORGET_EVERY, INDEX_EVERY, INDEX_RANGES, MEMORY
from poli.options import real_number
from poli.se3 import check_pose
from poli.threads import in_background
from poli.voxels import VOXELS_REACH, fill_slots, find_slot, voxel_key

_FIRST = 1 << 14  # cells


def check_extent(points: np.ndarray, cell: float) -> None:  # (N, 3)
    """Raise if the map would be too wide for the keys of its cells."""
    if not np.abs(points).max(initial=0.0) / cell < VOXELS_REACH:
        raise InputError(
            f"the map, with cells of {cell:g} m, cannot extend farther than {VOXELS_REACH * cell / 1000:.0f} km from the first "
            "scan; use larger voxels"
        )


class EllipsoidMap:
    """A map of ellipsoids: one per grid cell of `cell` meters, fused from all scans that observed it, within `radius` meters.

    The means and covariances in a cell are averaged, weighted by the inverse size of the ellipsoid, so that close views, which are
    finer, count more. A cell contains one surface, so averaging removes noise and the pattern of the beams. The weight is limited,
    so that the map follows changes. An update visits only the cells of the new scan; cells far from the sensor are removed.
    """

    def __init__(self, cell: float, radius: float, metric: Metric | None = None) -> None:
        self.cell = real_number(cell, "cell", "a positive number of meters", above=True)
        self.radius = real_number(radius, "radius", "a positive number of meters", above=True)
        self._metric = metric or Metric()
        self._center = np.zeros(3)  # position of the last removal of far cells
        self._count = 0
        self.renumbered = 0  # how often rows were renumbered, which invalidates anything derived from `weighed`
        self._allocate(_FIRST)

    def __len__(self) -> int:
        return self._count

    @property
    def field(self) -> Ellipsoids:
        """The map as a field, in the world frame."""
        n = self._count
        return Ellipsoids.trusted(self._means[:n].copy(), self._covariances[:n].copy(), None)

    @property
    def weighed(self) -> WeightedPoints:
        """The map as GICP points, as of the last `refresh`. The arrays are views: they change with the next one."""
        return self._weighed.first(self._count)

    def refresh(self) -> np.ndarray:  # (k,)
        """Bring `weighed` up to date, and return the rows that have changed since the last time."""
        rows = np.flatnonzero(self._stale[: self._count])
        self._stale[rows] = False
        self._weighed.means[rows] = self._means[rows]
        self._metric.weigh(self._covariances, rows, self._weighed)
        return rows

    def add(self, field: Ellipsoids, T_world_scan: np.ndarray) -> None:  # (4, 4)
        """Fuse the ellipsoids of a scan at this pose, and remove cells farther than the radius from it."""
        T = check_pose(T_world_scan, "T_world_scan")
        means, at = field.means @ T[:3, :3].T + T[:3, 3], T[:3, 3]
        check_extent(means, self.cell)
        if np.linalg.norm(at - self._center) > FORGET_EVERY * self.radius:
            self._forget(at)
        if self._count + len(field) > len(self._means):
            self._move(np.arange(self._count), 1 << int(np.ceil(np.log2(2 * (self._count + len(field))))))
        self._count = _fuse(
            self._keys, self._slots, self._means, self._covariances, self._mass, self._seen, self._stale, self._count,
            means, np.ascontiguousarray(field.covariances), np.ascontiguousarray(T[:3, :3]), self.cell, MEMORY,
        )  # fmt: skip

    def _forget(self, at: np.ndarray) -> None:  # (3,)
        self._center = at.copy()
        kept = np.flatnonzero(((self._means[: self._count] - at) ** 2).sum(axis=1) <= self.radius**2)
        if len(kept) < self._count:
            self.renumbered += 1
            self._move(kept, len(self._means))

    def _move(self, rows: np.ndarray, cells: int) -> None:  # (k,)
        """Keep these rows, in new arrays with room for `cells`."""
        kept = [array[rows] for array in self._arrays()]
        self._allocate(cells)
        self._count = len(rows)
        for array, values in zip(self._arrays(), kept, strict=True):
            array[: len(rows)] = values
        fill_slots(self._keys, self._slots, self._seen[: len(rows)])

    def _allocate(self, cells: int) -> None:
        self._means, self._covariances = np.empty((cells, 3)), np.empty((cells, 3, 3))
        self._mass, self._seen = np.empty(cells), np.empty(cells, np.int64)  # weight of the average, and its cell's key
        self._weighed = WeightedPoints.empty(cells)
        self._stale = np.empty(cells, np.bool_)  # changed since the last `refresh`
        self._keys, self._slots = np.zeros(2 * cells, np.int64), np.full(2 * cells, -1, np.int32)

    def _arrays(self) -> list[np.ndarray]:
        weighed = (self._weighed.means, self._weighed.shapes, self._weighed.normals, self._weighed.flatness)
        return [self._means, self._covariances, self._mass, self._seen, self._stale, *weighed]


@kernel
def _fuse(keys, slots, means, covariances, mass, seen, stale, count, new_means, new_covariances, R, cell, memory):
    """Add ellipsoids, weighted by the inverse of their size, to the averages of their cells. R turns their covariances."""
    RC, C = np.empty((3, 3)), np.empty((3, 3))
    for i in range(len(new_means)):
        key = voxel_key(new_means[i], cell)
        slot = find_slot(keys, slots, key)
        row = slots[slot]
        if row < 0:
            row = count
            count += 1
            keys[slot], slots[slot], seen[row] = key, row, key
            mass[row] = 0.0
            for a in range(3):
                means[row, a] = new_means[i, a]
                for b in range(3):
                    covariances[row, a, b] = 0.0
        for a in range(3):
            for b in range(3):
                RC[a, b] = (
                    R[a, 0] * new_covariances[i, 0, b] + R[a, 1] * new_covariances[i, 1, b] + R[a, 2] * new_covariances[i, 2, b]
                )
        for a in range(3):
            for b in range(3):
                C[a, b] = RC[a, 0] * R[b, 0] + RC[a, 1] * R[b, 1] + RC[a, 2] * R[b, 2]
        weight = 1.0 / max(C[0, 0] + C[1, 1] + C[2, 2], 1e-12)
        total = mass[row] + weight
        share = weight / total
        for a in range(3):
            means[row, a] += share * (new_means[i, a] - means[row, a])
            for b in range(3):
                covariances[row, a, b] += share * (C[a, b] - covariances[row, a, b])
        mass[row] = min(total, memory * weight)
        stale[row] = True
    return count


class LocalMap:
    """What the next scan is aligned to: the map around the sensor, with its index, or the last scan.

    It is updated in the background, while the next scan is prepared and its ellipsoids are estimated. These do not need the map,
    and the update is hard to split among threads itself. The results are the same as if it were updated at once.
    """

    def __init__(self, config: OdometryConfig) -> None:
        self._config = config
        self._T_world_target = np.eye(4)
        self._map: EllipsoidMap | None = None
        self._target: Target | None = None
        self._indexed_at = np.zeros(3), 0
        self._pending: Future[None] | None = None

    @property
    def map(self) -> EllipsoidMap | None:
        """The map, or None before the first scan and if scans are aligned to scans."""
        self.settle()
        return self._map

    @property
    def target(self) -> Target | None:
        """The index of the map, or of the last scan."""
        self.settle()
        return self._target

    @property
    def T_world_target(self) -> np.ndarray:  # (4, 4)
        """The frame of the target: that of the last scan, or the world of a map."""
        self.settle()
        return self._T_world_target

    def settle(self) -> None:
        """Wait for the last update, and raise its error if it failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def remember(
        self, field: Ellipsoids, weighed: WeightedPoints, T: np.ndarray, voxel: float, fresh: bool, unseen: bool
    ) -> None:  # (4, 4)
        """Add a scan. `fresh`: start again with it; `unseen`: it sees surfaces that are not indexed yet."""
        self.settle()
        self._pending = in_background(lambda: self._remember(field, weighed, T, voxel, fresh, unseen))

    def _remember(self, field: Ellipsoids, weighed: WeightedPoints, T: np.ndarray, voxel: float, fresh: bool, unseen: bool) -> None:
        if self._config.against == "scan":
            self._target, self._T_world_target = Target(weighed), T
            return
        if self._map is None or fresh:
            cell = self._config.cell or min(voxel, max(0.5 * voxel, CELL))
            self._map = EllipsoidMap(cell, self._config.radius, self._config.gicp.metric)
        self._map.add(field, T)
        moved = float(np.linalg.norm(T[:3, 3] - self._indexed_at[0]))
        far = moved > min(INDEX_EVERY, INDEX_RANGES * float(np.median(np.linalg.norm(field.means, axis=1))))
        renumbered = fresh or self._map.renumbered != self._indexed_at[1]
        if self._target is None or renumbered or far or unseen:
            changed, weighed = self._map.refresh(), self._map.weighed
            if self._target is None or renumbered:
                self._target = Target(weighed)
            else:
                self._target.update(weighed, changed)
            self._indexed_at = T[:3, 3].copy(), self._map.renumbered
