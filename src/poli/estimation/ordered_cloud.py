"""A cloud as the network looks at it, in the order of the leaves of its k-d tree: neighbors, frames, radii and context.

Training (`train.network_input`) and inference (`runtime`) both start here. In leaf order, point i // CELL of the next coarser level
leads the cell of point i."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poli.errors import InputError
from poli.estimation.architecture import AnyArchitecture, Architecture
from poli.estimation.frames import describe, principal_frames, spacing_per_radius
from poli.kdtree.neighborhoods import CELL, binary_scale
from poli.kdtree.tree import NARROWEST, KDTree, check_range, diagonal
from poli.kernel import kernel

# --- Merge coincident points: they say that a surface was hit twice, not how it runs.
#
# Scans contain thousands of them (nuScenes repeats returns; voxels and sensors round). The network scales each neighborhood by its
# size, which is zero where all neighbors coincide. So it receives every place once, and all points of a place get its ellipsoid.


@dataclass(frozen=True)
class Distinct:
    """The distinct places of a cloud. If no two points coincide and the order is that of the cloud, both arrays are None."""

    rows: np.ndarray | None  # (D,) int32: one point of each place
    places: np.ndarray | None  # (N,) int32: the place of each point

    def of_places(self, values: np.ndarray) -> np.ndarray:  # (N, ...) -> (D, ...)
        """Return the values of one point of each place."""
        return values if self.rows is None else values[self.rows]

    def of_points(self, values: np.ndarray) -> np.ndarray:  # (D, ...) -> (N, ...)
        """Return the value of each point's place."""
        return values if self.places is None else values[self.places]


def distinct(points: np.ndarray, ordered: bool = False) -> Distinct:  # (N, 3) float64, finite
    """Find the distinct places by hashing: one pass, no sorting.

    If `ordered`, places are sorted by their coordinates, so sums over them do not depend on the order of the points."""
    places, rows = _places(points)
    if not ordered:
        return Distinct(None, None) if len(rows) == len(points) else Distinct(rows, places)
    order = _by_coordinates(points[rows])
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Distinct(rows[order], rank[places])


def distinct_count(points: np.ndarray) -> int:  # (N, 3) float64, finite
    """Return the number of distinct points."""
    return len(_places(points)[1])


def _by_coordinates(points: np.ndarray) -> np.ndarray:  # (D, 3) -> (D,)
    """Return the order by x, then y, then z: one fast sort by x, then a sort by all three of the points with equal x."""
    order = np.argsort(points[:, 0])
    same = np.diff(points[order, 0]) == 0.0
    if same.any():
        slots = np.flatnonzero(np.append(same, False) | np.append(False, same))
        tied = order[slots]
        x, y, z = points[tied].T
        order[slots] = tied[np.lexsort((z, y, x))]
    return order


@kernel
def _places(points):
    """Return the place of each point (N,), numbered by first appearance, and the first point of each place."""
    slots = 16
    while slots < 2 * len(points):
        slots *= 2
    numbers = np.full(slots, -1, np.int32)
    places, first = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    count, last = 0, slots - 1
    mixed, bits = np.empty(3), np.empty(0, np.int64)
    for i in range(len(points)):
        key = np.int64(0)
        for a in range(3):
            mixed[a] = points[i, a] + 0.0  # turns -0.0 into 0.0
        bits = mixed.view(np.int64)
        for a in range(3):
            key = (key ^ bits[a]) * np.int64(-7046029254386353131)
            key ^= (key >> 29) & np.int64(0x7FFFFFFFF)
        slot = key & last
        while True:
            n = numbers[slot]
            if n < 0:
                numbers[slot] = count
                first[count] = i
                places[i] = count
                count += 1
                break
            f = first[n]
            if points[f, 0] == points[i, 0] and points[f, 1] == points[i, 1] and points[f, 2] == points[i, 2]:
                places[i] = n
                break
            slot = (slot + 1) & last
    return places, first[:count].copy()


@dataclass(frozen=True)
class Viewpoint:
    """Where a scan was taken from and which way was up, in the frame of its points; None where unknown."""

    position: np.ndarray | None = None  # (3,), or (N, 3) if every point has its own
    up: np.ndarray | None = None  # (3,) unit


def check_places(points: np.ndarray, places: Distinct, architecture: AnyArchitecture) -> None:  # (N, 3)
    """Raise InputError if a cloud has too few distinct points."""
    count, least = len(points if places.rows is None else places.rows), architecture.least_points
    if count < least:
        distinct_ones = "" if count == len(points) else f", but only {count} distinct ones"
        raise InputError(f"{len(points)} points{distinct_ones}; the network needs at least {least}")


def seen_from(view: Viewpoint, places: Distinct) -> Viewpoint:
    """Return the viewpoint of each place.

    If the points of one place have several viewpoints, the one with the smallest coordinates is used, so the order of the points
    does not matter."""
    if places.rows is None or places.places is None or view.position is None or view.position.ndim == 1:
        return view
    x, y, z = view.position.T
    _, first = np.unique(places.places[order := np.lexsort((z, y, x))], return_index=True)
    return Viewpoint(view.position[order[first]], view.up)


@dataclass(frozen=True)
class OrderedCloud:
    """A cloud in leaf order."""

    order: np.ndarray  # (N,) int32: which point of the cloud each is
    positions: np.ndarray  # (N, 3), multiplied by `scale`
    scale: float  # a power of two that brings the cloud's extent to about one
    extent: float  # of the cloud, in its own unit
    near: tuple[np.ndarray, ...]  # by level: (M, k) int32, the nearest others of the same level
    wide: tuple[int, ...]  # how many neighbors of the leads of levels 1, 2, ... a point also sees
    curved: tuple[int, ...]  # the same for curvature, if that sees others; empty if not
    size: int  # how many of near[0] are a point's group
    frames: np.ndarray  # (N, 3, 3) float32, axes as columns
    radius: np.ndarray  # (N,) root mean square distance of the group, multiplied by `scale`
    context: np.ndarray  # (N, c) float32: inputs of a point beside its group

    @property
    def spacing(self) -> np.ndarray:  # (N,)
        """The distance between points around each point, in the cloud's unit."""
        return spacing_per_radius(self.size) / self.scale * self.radius


def order_cloud(
    points: np.ndarray,  # (N, 3)
    architecture: Architecture,
    view: Viewpoint,
    watch: Callable[[str], None] = lambda stage: None,
    curvature: bool = False,
) -> OrderedCloud:
    """Search the neighbors of all points and derive their frames, radii and context. `watch` as in `runtime.forward`.

    Neighbors that only curvature needs are searched if it is asked for."""
    tree = tree_of(points, architecture)
    order = tree.leaf_order
    watch("sampling")
    near = tree.neighborhoods(*architecture.searches(len(points), curvature))
    watch("neighbors")
    extent = diagonal(tree)
    scale = binary_scale(extent)  # lengths are in units of the extent where they are float32
    positions = points[order]
    rays = None
    if view.position is not None:
        rays = positions - (view.position if view.position.ndim == 1 else view.position[order])
    positions *= scale
    size = min(architecture.neighbors[0], near[0].shape[1])
    wide, curved = (
        tuple(min(count, near[level].shape[1]) for level, count in enumerate(counts, 1))
        for counts in (architecture.wide, architecture.curvature_wide if curvature else ())
    )
    frames = None  # those that the sensor and up define
    if architecture.frames != "sensor" or rays is None or view.up is None:
        frames = principal_frames(positions, np.concatenate([near[0][:, :size], *of_leads(near, wide)], axis=1))
    of_points = (rays, view.up, frames, architecture.log_scale, architecture.sensor)
    frames, radius, context = describe(positions, near[0], size, scale, *of_points)
    return OrderedCloud(order, positions, scale, extent, near, wide, curved, size, frames, radius, context)


def of_leads(near: tuple[np.ndarray, ...], wide: tuple[int, ...]) -> list[np.ndarray]:  # (N, wide) int32 each
    """Return the nearest others of each point's leads on the coarser levels, as points of level 0."""
    steps = [(CELL**level, near[level][:, :count]) for level, count in enumerate(wide, 1)]
    return [np.repeat(neighbors * step, step, axis=0)[: len(near[0])] for step, neighbors in steps]


def tree_of(positions: np.ndarray, architecture: Architecture) -> KDTree:  # (N, 3)
    """The tree that a cloud is thinned by. Without a sensor it is built in the cloud's principal axes, each pointing to where
    points are farther out, so that a rotation of the cloud does not change which points are kept."""
    if architecture.sensor:
        return KDTree(positions)
    check_range(positions, narrowest=NARROWEST)
    seen = positions - positions[len(positions) // 2]  # from one of them: an outlier, however far, costs the others no digits
    scale = binary_scale(float(np.abs(seen).max()) or 1.0)
    centered = scale * (seen - seen.mean(axis=0))
    axes = np.linalg.eigh(centered.T @ centered)[1]
    farther = np.where(((centered @ axes) ** 3).sum(axis=0) < 0.0, -1.0, 1.0)
    return KDTree(seen @ (axes * farther))
