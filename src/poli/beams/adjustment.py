"""Joint least squares: corrections of the beams, poses of the scans, and planes, so that the planes become thin."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from poli.beams.corrections import Rings
from poli.beams.returns import Returns
from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.symmetric3 import eigh3
from poli.kernel import kernel
from poli.se3 import exp
from poli.threads import thread_count
from poli.voxels import voxel_numbers

# Planes: grid cells in which the ellipsoids of odometry's map are flat, thin and of one direction.
_CELL = 1.0  # meters
_THICK = 0.12  # meters: thickest ellipsoid to trust, one sigma
_FLAT = 0.25  # largest ratio of the smallest to the middle standard deviation
_TRUSTED = 0.6  # least share of a cell's ellipsoids that are trusted
_AGREE = 0.95  # least mean squared cosine between the normals of a cell and their common direction
_ALIKE = 0.94  # least cosine between the plane of the points and the direction of the ellipsoids
_LEAST_POINTS = 10  # of a plane
_WIDE = 0.1  # meters: least standard deviation of the points across their longest direction, within the plane

# Standard deviations of the errors of beams before any data, of the part that all beams share and of each beam's own: of elevation
# in degrees, and of range in meters. Data sheets give 0.1 degrees and 3 cm for a beam. An error that all beams share comes from the
# sensor's zero of elevation or range: the largest one that is well known is 0.2 degrees, in the HDL-64E of KITTI.
#
# The common part is more than a matter of size. Level ground and upright walls stay what they are if the world is stretched along
# the sensor's axis, that is, if elevations change by a multiple of sin(2 elevation); only the prior can tell how much of it there
# is. A prior without a common part would find the smallest errors that fit, and of a common error only the part that is unlike
# such a stretch: a third of it for a sensor that looks down.
_APART = (0.3, 0.1), (0.03, 0.02)
# Where beams cannot be told apart, the returns near a knot come from several of them, and their own errors average out. Ranges are
# then left alone: a common error of range differed by 3 cm between two logs of one sensor.
_BETWEEN = (0.3, 0.01), (0.001, 0.001)

# Standard deviations of a return: across any surface (roughness, bends within a cell), along the beam, and across it.
_SURFACE, _RANGE, _ANGLE = 0.01, 0.02, np.radians(0.02)  # meters, meters, radians
_GRAZING = 0.02  # least cosine between beam and normal; at smaller ones the beam hardly meets the plane
# Effective returns per beam and stretch. More returns than this only average noise that is already smaller than what no model
# holds (uneven ground, the footprint of a beam, motion within a scan): with it, a beam's mean height on level ground is known to
# about a millimeter. Near ground gives most of the returns and far ground most of the knowledge, so all beams count alike.
_ENOUGH = 300.0
_REWEIGHTED = 2  # plane fits per round, each with the robust weights of the one before
_RIDGE = 1e-9  # relative, of the plane's 3x3 system: points on one line leave a tilt undetermined, which this sets to zero
_POSE_STEP = np.array([np.radians(1.0)] * 3 + [0.3] * 3)  # radians and meters: damping of directions that no plane constrains
_FIXED = 1e12  # weight of the first pose of a stretch, which is the frame of all others


def prior(beams: int, rings: Rings) -> np.ndarray:  # (2 B, 2 B)
    """Inverse covariance of the corrections: elevations first, then ranges."""
    found, common_own = np.zeros((2 * beams, 2 * beams)), _BETWEEN if rings == "between" else _APART
    for block, (common, own) in enumerate(common_own):
        rows = slice(block * beams, (block + 1) * beams)
        found[rows, rows] = np.linalg.inv(common**2 + own**2 * np.eye(beams))
    return found


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive scans with the poses and the map of an odometry of their own."""

    returns: Returns
    poses: np.ndarray  # (S, 4, 4) T_first_scan
    cells: np.ndarray  # (C, 3) a point in each trusted cell of the map
    normals: np.ndarray  # (C, 3) its direction


def trusted_cells(field: Ellipsoids) -> tuple[np.ndarray, np.ndarray]:  # (C, 3), (C, 3)
    """The cells of a map whose ellipsoids agree on a plane: a point in each, and the normal."""
    scales, normals = field.scales, field.normals
    flat = (scales[:, 0] < _THICK) & (scales[:, 0] < _FLAT * scales[:, 1])
    cells, first = voxel_numbers(field.means, _CELL)
    outer = (normals[:, :, None] * normals[:, None, :] * flat[:, None, None]).reshape(-1, 9)
    count, trusted = np.bincount(cells, minlength=len(first)), np.bincount(cells, flat, minlength=len(first))
    agreement, axes = eigh3(_sums(cells, outer, len(first)).reshape(-1, 3, 3) / np.maximum(trusted, 1.0)[:, None, None])
    good = (trusted >= _TRUSTED * count) & (trusted > 0) & (agreement[:, 2] > _AGREE)
    return field.means[first[good]], np.ascontiguousarray(axes[good, :, 2])


class Planes(NamedTuple):
    """Returns grouped by plane."""

    rows: np.ndarray  # (N,) returns, sorted by plane
    members: np.ndarray  # (N,) the plane of each
    normals: np.ndarray  # (V, 3) of the cells' ellipsoids


def _group(stretch: Stretch, points: np.ndarray) -> Planes:  # (N, 3)
    """Group points by trusted cell; a plane needs points of two scans and two beams."""
    known = len(stretch.cells)
    which = voxel_numbers(np.concatenate([stretch.cells, points]), _CELL)[0][known:].astype(np.int64)
    rows = np.flatnonzero(which < known)  # the first points are in `known` different cells
    rows = rows[np.argsort(which[rows], kind="stable")]
    good = np.bincount(which[rows], minlength=known) >= _LEAST_POINTS
    for values in (stretch.returns.scans[rows], stretch.returns.beams[rows]):
        pairs = np.unique(np.stack([which[rows], values], axis=1), axis=0)
        good &= np.bincount(pairs[:, 0], minlength=known) > 1
    rows = rows[good[which[rows]]]
    return Planes(rows, (np.cumsum(good) - 1)[which[rows]], stretch.normals[good])


def _sums(groups: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:  # (N,), (N, k) -> (count, k)
    return np.stack([np.bincount(groups, column, minlength=count) for column in values.T], axis=1)


class Linear(NamedTuple):
    """Residuals r = n' (T p) - d of the returns on sound planes, with their derivatives. Unknowns are the elevation of B beams, the
    range of B beams, and 6 numbers for each of S scans; a return depends on at most 22."""

    planes: Planes
    residuals: np.ndarray  # (N,) meters
    sigmas: np.ndarray  # (N,) meters
    weights: np.ndarray  # (N,) 1 / variance, times the robust weight
    columns: np.ndarray  # (N, 22) unknowns
    values: np.ndarray  # (N, 22) derivatives by them
    on_plane: np.ndarray  # (N, 3) derivatives by the plane's offset and two tilts


def linearize(stretch: Stretch, corrections: np.ndarray, width: float, planes: Planes | None = None) -> Linear:
    """Fit planes to the returns of a stretch with these (B, 2) corrections. `width` is that of the robust kernel, in sigmas.

    `planes` groups the returns; by default they are grouped by the cells that they are in.
    """
    returns, poses = stretch.returns, stretch.poses
    raw = returns.corrected(corrections)
    local = returns.at_stamps(raw, poses)
    R, t = poses[returns.scans, :3, :3], poses[returns.scans, :3, 3]
    world = np.einsum("nij,nj->ni", R, local) + t
    kept, members, normals = planes = planes or _group(stretch, world)
    points, local, R, length = world[kept], local[kept], R[kept], np.linalg.norm(raw[kept], axis=1)
    up, out = _directions(raw[kept])
    robust, sigmas = np.ones(len(points)), np.full(len(points), _SURFACE)
    for _ in range(1 + _REWEIGHTED):
        weights = robust / sigmas**2
        total = np.maximum(np.bincount(members, weights, minlength=len(normals)), 1e-12)  # planes may have lost all their points
        away = points - (_sums(members, weights[:, None] * points, len(normals)) / total[:, None])[members]
        outer = (weights[:, None, None] * away[:, :, None] * away[:, None, :]).reshape(-1, 9)
        variances, axes = eigh3(_sums(members, outer, len(normals)).reshape(-1, 3, 3) / total[:, None, None])
        coordinates = np.einsum("ni,nij->nj", away, axes[members])  # across the plane, and two along it
        residuals = coordinates[:, 0]
        facing = np.einsum("nji,nj->ni", R, axes[members, :, 0])  # normals in the sensor frame
        across, along = np.einsum("ni,ni->n", facing, up), np.einsum("ni,ni->n", facing, out)
        sigmas = np.sqrt(_SURFACE**2 + (_RANGE * along) ** 2 + (_ANGLE * length * across) ** 2)
        robust = 1.0 / (1.0 + (residuals / (width * sigmas)) ** 2)
    alike = np.abs(np.einsum("vi,vi->v", axes[:, :, 0], normals)) > _ALIKE
    sound = (variances[:, 1] > _WIDE**2) & (variances[:, 0] < _FLAT**2 * variances[:, 1]) & alike
    # Derivatives are taken where the beam meets the plane. At the measured point they contain its noise, as the residual does, and
    # the two correlate: the vertical scale of the world, which planes hardly resist, would then shrink to lower the noise.
    grazing = np.abs(along) < _GRAZING
    ahead = -residuals / np.where(grazing, 1.0, along)
    reach = length + ahead
    shift = np.einsum("nij,nj->ni", R, out) * ahead[:, None]
    on_plane = np.column_stack([np.ones(len(points)), coordinates[:, 1:] + np.einsum("nki,nk->ni", axes[members, :, 1:], shift)])
    by_beam = np.stack([np.radians(1.0) * reach * across, along], axis=1)
    by_pose = np.concatenate([np.cross(local + ahead[:, None] * out, facing), facing], axis=1)
    good = sound[members] & ~grazing & (reach > 0.0)
    rows, beams = kept[good], returns.beams[kept[good]]
    weights = (robust / sigmas**2)[good] * np.minimum(1.0, _ENOUGH / np.bincount(beams, minlength=1)[beams])
    columns, values = derivatives(returns, rows, by_beam[good], by_pose[good], len(corrections))
    found = Planes(rows, members[good], normals)
    return Linear(found, residuals[good], sigmas[good], weights, columns, values, on_plane[good])


def derivatives(
    returns: Returns, rows: np.ndarray, by_beam: np.ndarray, by_pose: np.ndarray, beams: int
) -> tuple[np.ndarray, np.ndarray]:  # (N,), (N, 2), (N, 6) -> (N, 22), (N, 22)
    """The unknowns of each return, two beams and three poses with their shares, and the derivatives by them."""
    share, parts = returns.share[rows, None], returns.parts[rows]
    of_beam = np.stack([returns.low[rows], returns.high[rows]], axis=1)[:, :, None] + beams * np.arange(2)  # (N, 2, 2)
    of_pose = 2 * beams + 6 * (returns.nodes[rows, None] + np.arange(3))[:, :, None] + np.arange(6)  # (N, 3, 6)
    columns = np.concatenate([of_beam.reshape(-1, 4), of_pose.reshape(-1, 18)], axis=1)
    values = [(1.0 - share) * by_beam, share * by_beam, (parts[:, :, None] * by_pose[:, None]).reshape(-1, 18)]
    return columns, np.concatenate(values, axis=1)


def _directions(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (N, 3), (N, 3)
    """Unit vectors: upward at a right angle to the beam, and along it."""
    level = np.maximum(np.hypot(points[:, 0], points[:, 1]), 1e-9)
    reach = np.maximum(np.hypot(level, points[:, 2]), 1e-9)
    rise = points[:, 2] / reach
    up = np.stack([-rise * points[:, 0] / level, -rise * points[:, 1] / level, level / reach], axis=1)
    return up, points / reach[:, None]


def equations(linear: Linear, size: int) -> tuple[np.ndarray, np.ndarray]:  # (size, size), (size,)
    """Normal equations matrix x = -gradient of the unknowns, with the planes eliminated by their Schur complement: a plane that all
    beams measure equally wrong says nothing about them."""
    members, count, on_plane = linear.planes.members, len(linear.planes.normals), linear.on_plane
    few = np.bincount(members, minlength=count) < 4
    weights = np.where(few[members], 0.0, linear.weights)
    outer = (weights[:, None, None] * on_plane[:, :, None] * on_plane[:, None, :]).reshape(-1, 9)
    plane = _sums(members, outer, count).reshape(-1, 3, 3)  # of each plane's own three unknowns
    plane += (_RIDGE * np.trace(plane, axis1=1, axis2=2) + few)[:, None, None] * np.eye(3)
    inverse = np.linalg.inv(plane)
    right = _sums(members, (weights * linear.residuals)[:, None] * on_plane, count)
    residuals = linear.residuals - np.einsum("na,nab,nb->n", on_plane, inverse[members], right[members])
    gradient = np.bincount(linear.columns.ravel(), ((weights * residuals)[:, None] * linear.values).ravel(), minlength=size)
    matrix, starts = np.zeros((size, size)), np.searchsorted(members, np.arange(count + 1))
    _accumulate(starts, linear.columns, linear.values, on_plane, weights, inverse, matrix)
    return matrix + np.triu(matrix, 1).T, gradient


@kernel
def _accumulate(starts, columns, values, on_plane, weights, inverse, matrix):
    """Add to the upper triangle of each plane sum w j j' - U inverse U', where U = sum w j on_plane' and j are the derivatives."""
    size, used = len(matrix), columns.shape[1]
    touched, seen, U = np.empty(size, np.int64), np.zeros(size, np.bool_), np.empty((size, 3))
    for v in range(len(starts) - 1):
        count = 0
        for k in range(starts[v], starts[v + 1]):
            for i in range(used):
                c, x = columns[k, i], weights[k] * values[k, i]
                if x == 0.0:
                    continue
                if not seen[c]:
                    seen[c], touched[count], U[c] = True, c, 0.0
                    count += 1
                for a in range(3):
                    U[c, a] += x * on_plane[k, a]
                for j in range(used):
                    if columns[k, j] >= c:
                        matrix[c, columns[k, j]] += x * values[k, j]
        A = inverse[v]
        for i in range(count):
            c = touched[i]
            x = A[0, 0] * U[c, 0] + A[0, 1] * U[c, 1] + A[0, 2] * U[c, 2]
            y = A[1, 0] * U[c, 0] + A[1, 1] * U[c, 1] + A[1, 2] * U[c, 2]
            z = A[2, 0] * U[c, 0] + A[2, 1] * U[c, 1] + A[2, 2] * U[c, 2]
            for j in range(count):
                d = touched[j]
                if d >= c:
                    matrix[c, d] -= x * U[d, 0] + y * U[d, 1] + z * U[d, 2]
            seen[c] = False


def _reduced(stretch: Stretch, corrections: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The equations of a stretch with its poses eliminated: the (2 B, 2 B) matrix and the gradient, and the steps of its poses by
    those of the beams, -(own + by_beam step), as by_beam (6 S, 2 B) and own (6 S,)."""
    b = 2 * len(corrections)
    matrix, gradient = equations(linearize(stretch, corrections, width), b + 6 * len(stretch.poses))
    poses, cross = matrix[b:, b:].copy(), matrix[:b, b:]
    poses[np.diag_indices(len(poses))] += np.tile(_POSE_STEP**-2.0, len(stretch.poses))
    poses[np.diag_indices(6)] += _FIXED
    solved = np.linalg.solve(poses, np.column_stack([cross.T, gradient[b:]]))
    by_beam, own = solved[:, :b], solved[:, b]
    return matrix[:b, :b] - cross @ by_beam, gradient[:b] - cross @ own, by_beam, own


def adjust(
    stretches: Sequence[Stretch], corrections: np.ndarray, prior: np.ndarray | None, widths: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, list[Stretch]]:  # (B, 2), (2 B, 2 B) -> (B, 2), (2 B, 2 B)
    """Return the corrections in degrees and meters, their covariance, and the stretches with adjusted poses, after one step for
    each width of the robust kernel. `prior` is the inverse covariance of the corrections; None keeps them fixed."""
    stretches, beams = list(stretches), len(corrections)
    covariance = np.zeros((2 * beams, 2 * beams))
    for width in widths:
        with ThreadPoolExecutor(thread_count()) as pool:
            parts = list(pool.map(partial(_reduced, corrections=corrections, width=width), stretches))
        step = np.zeros(2 * beams)
        if prior is not None:
            covariance = np.linalg.inv(sum(matrix for matrix, *_ in parts) + prior)
            step = -covariance @ (sum(gradient for _, gradient, *_ in parts) + prior @ corrections.T.ravel())
        corrections = corrections + step.reshape(2, beams).T
        for number, (_, _, by_beam, own) in enumerate(parts):
            poses, steps = stretches[number].poses, -(own + by_beam @ step).reshape(-1, 6)
            moved = np.stack([T @ exp(xi) for T, xi in zip(poses, steps, strict=True)])
            stretches[number] = replace(stretches[number], poses=moved)
    return corrections, covariance, stretches
