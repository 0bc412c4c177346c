"""A place indexed for queries: rays meet its surfaces and moving cars, and distances to the true surface are exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.worlds.places.place import Label, Mover, Place
from poli.worlds.triangles import TriangleIndex

_ROOM = 7.0  # meters: moving cars do not react to the sensor, so cars that come closer are removed


@dataclass(frozen=True)
class Hits:
    """Where rays ended, in the world's frame."""

    distance: np.ndarray  # (M,) infinite: no hit
    normals: np.ndarray  # (M, 3) unit, towards the ray's origin
    labels: np.ndarray  # (M,) uint8
    moving: np.ndarray  # (M,) whether the ray hit a moving car


class World:
    """The indexed triangles of a place. `surface` and `distance` cover static surfaces only."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.surface = TriangleIndex(place.triangles)
        self._movers = tuple((mover, TriangleIndex(mover.triangles)) for mover in place.movers)

    def cast(self, origins: np.ndarray, directions: np.ndarray, max_range: float, times: np.ndarray | None = None) -> Hits:
        """Return the first surface along each unit ray (M, 3). Moving cars are at their positions at `times` (M,) seconds; without
        `times` there are none."""
        distance, hit = self.surface.cast(origins, directions, max_range)
        found = hit >= 0
        normals = np.where(found[:, None], self.surface.normals[hit], 0.0)
        labels = np.where(found, self.place.labels[hit], 0).astype(np.uint8)
        moving = np.zeros(len(origins), bool)
        for mover, index in self._movers if times is not None else ():
            assert times is not None
            aimed = _aimed(mover, origins, directions, times)
            if not len(aimed):
                continue
            R, at = _mover_poses(mover, times[aimed])
            local = np.einsum("mji,mj->mi", R, origins[aimed] - at), np.einsum("mji,mj->mi", R, directions[aimed])
            near, which = index.cast(*local, max_range)
            closer = near < distance[aimed]
            rows = aimed[closer]
            distance[rows] = near[closer]
            normals[rows] = np.einsum("mij,mj->mi", R[closer], index.normals[which[closer]])
            labels[rows], moving[rows] = Label.VEHICLE, True
        away = np.einsum("mi,mi->m", normals, directions) > 0
        normals[away] *= -1.0
        return Hits(distance.astype(np.float64), normals, labels, moving)

    def distance(self, points: np.ndarray) -> np.ndarray:  # (M, 3) -> (M,)
        """Distance from points in the world's frame to the nearest static surface."""
        return self.surface.nearest(points)[0]


def _aimed(mover: Mover, origins: np.ndarray, directions: np.ndarray, times: np.ndarray) -> np.ndarray:  # -> (A,)
    """Rays that may hit the car, because they pass its center within its reach; none if the car is too close to the sensor."""
    ends = _mover_poses(mover, np.array([times.min(), times.max()]))[1]
    middle, moved = ends.mean(axis=0), float(np.linalg.norm(ends[1] - ends[0]))
    if np.linalg.norm(middle - origins[0]) < _ROOM:
        return np.empty(0, np.int64)
    towards = middle - origins
    along = np.einsum("mi,mi->m", towards, directions)
    aside = np.einsum("mi,mi->m", towards, towards) - along * along
    reach = float(np.linalg.norm(mover.triangles.reshape(-1, 3), axis=1).max()) + moved
    return np.flatnonzero((aside < reach**2) & (along > -reach))


def _mover_poses(mover: Mover, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (M, 3, 3), (M, 3)
    """Poses along the route, looping back to its start, level and looking ahead."""
    steps = np.linalg.norm(np.diff(mover.route, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    s = (mover.start + mover.speed * times) % along[-1]
    at = np.stack([np.interp(s, along, mover.route[:, a]) for a in range(3)], axis=1)
    piece = np.clip(np.searchsorted(along, s, side="right") - 1, 0, len(steps) - 1)
    heading = np.diff(mover.route, axis=0)[piece]
    yaw = np.arctan2(heading[:, 1], heading[:, 0])
    R = np.zeros((len(times), 3, 3))
    R[:, 0, 0], R[:, 0, 1], R[:, 1, 0], R[:, 1, 1], R[:, 2, 2] = np.cos(yaw), -np.sin(yaw), np.sin(yaw), np.cos(yaw), 1.0
    return R, at
