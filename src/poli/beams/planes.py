"""Planes of a map: grid cells in which the ellipsoids of odometry's map are flat, thin and of one direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from poli.beams.corrections import BeamCalibration
from poli.beams.returns import Beams, Returns, choose_returns
from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.symmetric3 import eigh3
from poli.lidar_odometry import Odometer, OdometryConfig, Status
from poli.scan import Scan
from poli.se3 import inverse
from poli.voxels import voxel_numbers

CELL = 1.0  # meters
_THICK = 0.12  # meters: thickest ellipsoid to trust, one sigma
_FLAT = 0.25  # largest ratio of the smallest to the middle standard deviation
_TRUSTED = 0.6  # least share of a cell's ellipsoids that are trusted
_AGREE = 0.95  # least mean squared cosine between the normals of a cell and their common direction
_ALIKE = 0.94  # least cosine between the plane of the points and the direction of the ellipsoids
_LEAST_POINTS = 10  # of a plane
_WIDE = 0.1  # meters: least standard deviation of the points across their longest direction, within the plane


@dataclass(frozen=True, eq=False)
class Cells:
    """Trusted cells of the map, by a point in each and its direction."""

    means: np.ndarray  # (C, 3)
    normals: np.ndarray  # (C, 3)

    @staticmethod
    def of(field: Ellipsoids) -> Cells:
        scales, normals = field.scales, field.normals
        flat = (scales[:, 0] < _THICK) & (scales[:, 0] < _FLAT * scales[:, 1])
        cells, first = voxel_numbers(field.means, CELL)
        count = np.bincount(cells, minlength=len(first))
        trusted = np.bincount(cells, flat, minlength=len(first))
        outer = normals[:, :, None] * normals[:, None, :] * flat[:, None, None]
        sums = np.stack([np.bincount(cells, column, minlength=len(first)) for column in outer.reshape(-1, 9).T], axis=1)
        agreement, axes = eigh3(sums.reshape(-1, 3, 3) / np.maximum(trusted, 1.0)[:, None, None])
        good = (trusted >= _TRUSTED * count) & (trusted > 0) & (agreement[:, 2] > _AGREE)
        return Cells(field.means[first[good]], np.ascontiguousarray(axes[good, :, 2]))


@dataclass(frozen=True, eq=False)
class Planes:
    """Points grouped by plane."""

    rows: np.ndarray  # (N,) points on planes, sorted by plane
    starts: np.ndarray  # (V + 1,)
    normals: np.ndarray  # (V, 3) of the cells' ellipsoids

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def members(self) -> np.ndarray:  # (N,)
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


def group(points: np.ndarray, scans: np.ndarray, beams: np.ndarray, cells: Cells) -> Planes:  # (N, 3), (N,), (N,)
    """Group points by trusted cell; a plane needs points of two scans and two beams."""
    known = len(cells.means)
    numbers, _ = voxel_numbers(np.concatenate([cells.means, points]), CELL)
    which = numbers[known:].astype(np.int64)
    which = np.where(which < known, which, -1)  # the first points of `numbers` are in `known` different cells
    rows = np.flatnonzero(which >= 0)
    rows = rows[np.argsort(which[rows], kind="stable")]
    count = np.bincount(which[rows], minlength=known)
    several = [_distinct(which[rows], values[rows], known) > 1 for values in (scans, beams)]
    good = (count >= _LEAST_POINTS) & several[0] & several[1]
    rows = rows[good[which[rows]]]
    return Planes(rows, np.concatenate([[0], np.cumsum(count[good])]), cells.normals[good])


def _distinct(groups: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:  # (N,), (N,) -> (count,)
    pairs = np.unique(groups * (1 + int(values.max(initial=0))) + values)
    return np.bincount(pairs // (1 + int(values.max(initial=0))), minlength=count)


@dataclass(frozen=True, eq=False)
class Fit:
    """Planes fitted to points, row by row of `Planes`."""

    residuals: np.ndarray  # (N,) meters
    normals: np.ndarray  # (N, 3) of each point's plane
    axes: np.ndarray  # (N, 3, 2) two directions in that plane
    beside: np.ndarray  # (N, 2) coordinates along them, from the plane's center
    sound: np.ndarray  # (V,) planes that the points determine and that have the direction of their ellipsoids


def fit(points: np.ndarray, planes: Planes, weights: np.ndarray) -> Fit:  # (N, 3), (N,)
    """Fit a plane to the weighted points of each group."""
    members, count = planes.members, len(planes)
    total = np.maximum(np.bincount(members, weights, minlength=count), 1e-12)  # planes may have lost all their points
    centers = np.stack([np.bincount(members, weights * points[:, a], minlength=count) for a in range(3)], axis=1) / total[:, None]
    away = points - centers[members]
    sums = [np.bincount(members, weights * away[:, a] * away[:, b], minlength=count) for a in range(3) for b in range(3)]
    values, axes = eigh3(np.stack(sums, axis=1).reshape(-1, 3, 3) / total[:, None, None])
    along = np.einsum("ni,nij->nj", away, axes[members])  # (N, 3)
    alike = np.abs(np.einsum("vi,vi->v", axes[:, :, 0], planes.normals)) > _ALIKE
    sound = (values[:, 1] > _WIDE**2) & (values[:, 0] < _FLAT**2 * values[:, 1]) & alike
    normals, beside = np.ascontiguousarray(axes[members, :, 0]), np.ascontiguousarray(along[:, 1:])
    return Fit(along[:, 0], normals, axes[members, :, 1:], beside, sound)


# --- Stretches of a log: consecutive scans with the poses and the map of an odometry of their own.


LENGTH = 80  # scans of a stretch: long enough that ground far ahead in one scan is near in another
_HELD_OUT = 0.25  # of the scans
LEAST = 6  # scans of a stretch that are worth using


@dataclass(frozen=True, eq=False)
class Stretch:
    returns: Returns
    poses: np.ndarray  # (S, 4, 4) T_first_scan
    cells: Cells


def choose_stretches(count: int, most: int) -> tuple[list[range], list[range]]:
    """Split a log of `count` scans into stretches to learn from and stretches to hold out, which are the last quarter.

    If the log has more than `most` scans, only so many are used, in stretches that are spread evenly over it.
    """
    used = min(count, most)
    learned = used - round(_HELD_OUT * used)
    pieces = max(1, round(learned / LENGTH)), max(1, round((used - learned) / LENGTH))
    edges = np.concatenate([np.linspace(0, learned, pieces[0] + 1), np.linspace(learned, used, pieces[1] + 1)[1:]])
    shift = np.linspace(0, count - used, sum(pieces)).round().astype(int)
    ends = edges.round().astype(int)
    found = [range(int(a + s), int(b + s)) for a, b, s in zip(ends[:-1], ends[1:], shift, strict=True)]
    return found[: pieces[0]], found[pieces[0] :]


def track(
    read: Callable[[int], Scan],
    numbers: Sequence[int],
    beams: Beams,
    calibration: BeamCalibration | None,
    config: OdometryConfig,
    tell: Callable[[], None] = lambda: None,
) -> Stretch | None:
    """Run odometry on corrected scans. Return None if fewer than `LEAST` scans are tracked; the stretch ends where tracking does.

    `read` returns a scan by its number; `tell` is called after each.
    """
    odometer = Odometer(config)
    scans: list[Scan] = []
    for number in numbers:
        scan = read(number)
        step = odometer.add(calibration.apply(scan) if calibration else scan)
        tell()
        if (step.alignment is None and step.index > 0) or step.status is Status.RESTARTED:
            break
        scans.append(scan)
    if len(scans) < LEAST or odometer.map is None:
        return None
    stamps = [scan.stamp for scan in scans]
    seconds = np.arange(len(scans)) * 0.1 if None in stamps else (np.array(stamps) - stamps[0]) * 1e-9
    returns = choose_returns(scans, beams, seconds, config.deskew == "on")
    poses = odometer.poses[: len(scans)]
    return Stretch(returns, inverse(poses[0]) @ poses, Cells.of(odometer.map.field))
