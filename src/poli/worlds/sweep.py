"""A world, and one scan of a sensor in it, with the effects that real scans suffer from and the ground truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poli.scan import Scan
from poli.se3 import check_pose, inverse
from poli.voxels import voxel_numbers
from poli.worlds.places import make_place
from poli.worlds.places.ground import Label
from poli.worlds.places.site import Mover, Place
from poli.worlds.sensors import Scanner
from poli.worlds.trajectory import Trajectory, usual_ride
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


def true_normals(scan: Scan, voxel: float = 0.0) -> np.ndarray:  # -> (N, 3), row by row as in voxel_downsample(scan, voxel)
    """Unit normals towards the sensor. The normal of a voxel is the direction of the mean normal of its returns.

    NaN where undefined: leaves have no common normal, and returns between two surfaces are on neither. A voxel has a normal if half
    of its returns have one.
    """
    sound = (scan.fields["mixed"] == 0) & (scan.fields["label"] != Label.LEAVES)
    normals = np.where(sound[:, None], scan.fields["normal"].astype(np.float64), 0.0)
    if voxel:
        voxels, first = voxel_numbers(scan.points, voxel)
        returns = np.bincount(voxels, minlength=len(first))
        share = np.bincount(voxels, sound, minlength=len(first)) / returns
        normals = np.stack([np.bincount(voxels, normals[:, a], minlength=len(first)) for a in range(3)], axis=1)
        sound = share >= 0.5
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(sound[:, None] & (length > 1e-9), normals / np.maximum(length, 1e-9), np.nan)


# Reflectivity at normal incidence by label; rough values, good enough to lose the right returns first.
_REFLECTIVITY = np.full(256, 0.35)
for _label, _value in {Label.ROAD: 0.15, Label.GROUND: 0.3, Label.LEAVES: 0.5, Label.VEHICLE: 0.3, Label.BUILDING: 0.4}.items():
    _REFLECTIVITY[_label] = _value
_MIXING = 1.5  # meters: two surfaces closer than the pulse length give one return in between


def sweep(
    world: World,
    sensor: Scanner,
    poses: Callable[[np.ndarray], np.ndarray],  # (M,) seconds -> (M, 4, 4) T_world_sensor
    start: float = 0.0,  # seconds
    seed: int = 0,
    deskewed: bool = True,
    movers: bool = True,
    phase: float = 0.0,
) -> Scan:
    """Simulate one scan: a turn of a spinning sensor, or a frame of another one.

    The fields are `ring`, `time` (s from the start), `intensity`, and the ground truth: `normal` (N, 3); `exact` (N, 3), where the
    center of the beam met a surface; `label`; `moving`; and `mixed` for returns between two surfaces, which are on neither.

    `phase` in [0, 1) shifts the firing grid by a fraction of a step.

    Points are in the sensor's frame at the start of the scan or, if not `deskewed`, each in the frame at its own time, as a sensor
    delivers them. Normals are in the same frame as the points.
    """
    rng = np.random.default_rng([seed, 1])
    rays = sensor.rays(start, phase)
    local, columns = rays.directions, rays.columns
    T = poses(start + rays.times)  # (K, 4, 4)
    R, at = T[columns, :3, :3], T[columns, :3, 3]
    directions = np.einsum("mij,mj->mi", R, local)
    times = start + rays.times[columns] if movers else None
    central = world.cast(at, directions, sensor.max_range, times)
    hits, mixed = _with_beam_width(world, sensor, central, at, directions, times, rng)
    distance = hits.distance
    seen = np.isfinite(distance) & (distance > sensor.min_range)
    intensity = _REFLECTIVITY[hits.labels] * np.abs(np.einsum("mi,mi->m", hits.normals, directions))
    # Power falls with the square of the range and with the incidence angle. Rough surfaces return some of it at grazing angles, so
    # the reach falls only with the fourth root.
    reach = 1.2 * sensor.max_range * intensity**0.25
    seen &= distance < reach * rng.uniform(0.85, 1.0, len(reach))
    seen &= rng.random(len(reach)) >= sensor.dropout
    exact = np.where(np.isfinite(central.distance), central.distance, distance)[seen]
    distance = distance[seen] + rng.normal(0.0, sensor.noise, int(seen.sum()))
    lines, normals = local[seen], np.einsum("mji,mj->mi", R[seen], hits.normals[seen])
    origins = np.zeros(3)
    if deskewed:
        home = inverse(T[0])
        turn = np.einsum("ij,mjk->mik", home[:3, :3], R[seen])
        lines, normals = np.einsum("mij,mj->mi", turn, lines), np.einsum("mij,mj->mi", turn, normals)
        origins = at[seen] @ home[:3, :3].T + home[:3, 3]
    fields = {
        "ring": rays.rings[seen].astype(np.uint16),
        "time": rays.times[columns[seen]].astype(np.float32),
        "intensity": (255.0 * intensity[seen]).astype(np.float32),
        "normal": normals.astype(np.float32),
        "exact": (origins + exact[:, None] * lines).astype(np.float32),
        "label": hits.labels[seen],
        "moving": hits.moving[seen].astype(np.uint8),
        "mixed": mixed[seen].astype(np.uint8),
    }
    return Scan((origins + distance[:, None] * lines).astype(np.float32), fields, stamp=round(start * 1e9))


def simulate_scan(world: World, sensor: Scanner, T_world_sensor: np.ndarray, seed: int = 0) -> Scan:  # (4, 4)
    """Simulate one scan of a stationary sensor."""
    T = check_pose(T_world_sensor, "T_world_sensor")
    return sweep(world, sensor, lambda times: np.tile(T, (len(times), 1, 1)), seed=seed, movers=False)


def scan_of(kind: str, sensor: Scanner, seed: int = 0, along: float = 0.3) -> Scan:
    """Simulate one scan on the route of a place, at the share `along` of its length. For examples and measurements."""
    world = World(make_place(kind, seed))
    trajectory = Trajectory(world.place.route, usual_ride(kind))
    return simulate_scan(world, sensor, trajectory.poses(np.array([along * trajectory.duration]))[0], seed)


def _with_beam_width(
    world: World,
    sensor: Scanner,
    hits: Hits,
    at: np.ndarray,
    directions: np.ndarray,
    times: np.ndarray | None,
    rng: np.random.Generator,
) -> tuple[Hits, np.ndarray]:
    """Return the hits of beams with a finite width, and which returns are on no surface.

    A second ray within the beam may meet another surface. Then the return is one of the two or, if they are close together,
    anything in between. On a single surface it is their mean.
    """
    if sensor.divergence == 0.0:
        return hits, np.zeros(len(at), bool)
    aside = directions + rng.normal(0.0, 0.25 * sensor.divergence, directions.shape)
    other = world.cast(at, aside / np.linalg.norm(aside, axis=1, keepdims=True), sensor.max_range, times)
    first, second = hits.distance, other.distance
    with np.errstate(invalid="ignore"):  # both rays miss
        step = second - first
    both = np.isfinite(step)
    gap = np.where(both, np.abs(step), np.inf)
    cosine = np.maximum(np.abs(np.einsum("mi,mi->m", hits.normals, directions)), 0.01)
    slant = np.where(both, first, 0.0) * sensor.divergence * np.sqrt(1.0 - np.minimum(cosine, 1.0) ** 2) / cosine
    edge = gap > 0.03 + 2.0 * slant  # more than the slant of one surface explains
    mixed = edge & (gap < _MIXING) & (rng.random(len(gap)) < 0.5)
    swap = edge & ~mixed & (rng.random(len(gap)) < 0.5)
    distance = np.where(swap, second, first)
    distance[mixed] += rng.random(int(mixed.sum())) * step[mixed]
    distance[both & ~edge] += 0.5 * step[both & ~edge]
    normals, labels, moving = (
        np.where(swap.reshape(-1, *[1] * (a.ndim - 1)), b, a)
        for a, b in ((hits.normals, other.normals), (hits.labels, other.labels), (hits.moving, other.moving))
    )
    return Hits(distance, normals, labels, moving), mixed
