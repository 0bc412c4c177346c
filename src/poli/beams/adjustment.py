"""Joint least squares: corrections of the beams, poses of the scans, and planes, so that the planes become thin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poli.beams.corrections import Rings
from poli.beams.planes import Planes, Stretch, fit, group
from poli.beams.returns import moved
from poli.kernel import kernel
from poli.threads import run_chunks

# --- What is known about the errors of beams before any data: a common part, and a part of each beam.


# Standard deviations in degrees and meters. Data sheets give 0.1 degrees and 3 cm for a beam. An error that all beams share comes
# from the sensor's zero of elevation or range: the largest one that is well known is 0.2 degrees, in the HDL-64E of KITTI.
#
# The common part is more than a matter of size. Level ground and upright walls stay what they are if the world is stretched along
# the sensor's axis, that is, if elevations change by a multiple of sin(2 elevation); only the prior can tell how much of it there
# is. A prior without a common part would find the smallest errors that fit, and of a common error only the part that is unlike
# such a stretch: a third of it for a sensor that looks down.
_COMMON = {"elevation": 0.3, "range": 0.03}
_OF_A_BEAM = {"elevation": 0.1, "range": 0.02}
# Where beams cannot be told apart, the returns near a knot come from several of them, and their own errors average out. Ranges are
# then left alone: a common error of range differed by 3 cm between two logs of one sensor.
_BETWEEN_COMMON = {"elevation": 0.3, "range": 0.001}
_OF_A_KNOT = {"elevation": 0.01, "range": 0.001}


def prior(beams: int, rings: Rings) -> np.ndarray:  # (2 B, 2 B)
    """Inverse covariance of the corrections: elevations first, then ranges."""
    common, own = (_BETWEEN_COMMON, _OF_A_KNOT) if rings == "between" else (_COMMON, _OF_A_BEAM)
    found = np.zeros((2 * beams, 2 * beams))
    for block, kind in enumerate(("elevation", "range")):
        rows = slice(block * beams, (block + 1) * beams)
        found[rows, rows] = np.linalg.inv(common[kind] ** 2 + own[kind] ** 2 * np.eye(beams))
    return found


# --- Normal equations of points on planes, with the planes eliminated.
#
# The residual of point k on plane v is r = n' (T p) - d. It is linear in small changes of the beams' corrections, of the pose
# of the
# scan, and of the plane (its offset and two tilts). For each plane the three parameters are eliminated by their Schur
# complement, so
# only beams and poses remain. A plane that all beams measure equally wrong therefore says nothing about them.


_RIDGE = 1e-9  # relative, of the plane's 3x3 system: points on one line leave a tilt undetermined, which this sets to zero


@dataclass(frozen=True, eq=False)
class Rows:
    """Residuals sorted by plane, with their derivatives."""

    starts: np.ndarray  # (V + 1,) first row of each plane
    nodes: np.ndarray  # (N,) first of three scans
    parts: np.ndarray  # (N, 3) their shares in the pose of the return
    low: np.ndarray  # (N,) beam
    high: np.ndarray  # (N,) beam
    share: np.ndarray  # (N,) of the second beam
    beside: np.ndarray  # (N, 2) coordinates in the plane, from its center
    by_beam: np.ndarray  # (N, 2) per degree of elevation and meter of range
    by_pose: np.ndarray  # (N, 6) rotation, translation
    residuals: np.ndarray  # (N,) meters
    weights: np.ndarray  # (N,) 1 / variance, times the robust weight


@dataclass(frozen=True, eq=False)
class Equations:
    """matrix x = -gradient. Unknowns: elevation of B beams, range of B beams, 6 numbers for each of S scans."""

    matrix: np.ndarray  # (2 B + 6 S, 2 B + 6 S)
    gradient: np.ndarray  # (2 B + 6 S,)


def equations(rows: Rows, beams: int, scans: int) -> Equations:
    size = 2 * beams + 6 * scans
    matrix, gradient = np.zeros((size, size)), np.zeros(size)
    _accumulate(
        rows.starts, rows.nodes, rows.parts, rows.low, rows.high, rows.share, rows.beside, rows.by_beam, rows.by_pose,
        rows.residuals, rows.weights, beams, matrix, gradient,
    )  # fmt: skip
    return Equations(matrix + np.triu(matrix, 1).T, gradient)


@kernel
def _accumulate(starts, nodes, parts, low, high, share, beside, by_beam, by_pose, residuals, weights, beams, matrix, gradient):
    size = len(gradient)
    place = np.full(size, -1, np.int64)  # of an unknown among those that the plane touches
    touched = np.empty(size, np.int64)
    coupling = np.empty((size, 3))
    solved = np.empty((size, 3))
    score = np.empty(size)
    columns, values = np.empty(22, np.int64), np.empty(22)
    on_plane = np.empty(3)
    for v in range(len(starts) - 1):
        if starts[v + 1] - starts[v] < 4:
            continue
        count = 0
        plane, right = np.zeros((3, 3)), np.zeros(3)
        for k in range(starts[v], starts[v + 1]):
            w, r = weights[k], residuals[k]
            on_plane[0], on_plane[1], on_plane[2] = 1.0, beside[k, 0], beside[k, 1]
            used = 0
            for side in range(2):
                beam, part = (low[k], 1.0 - share[k]) if side == 0 else (high[k], share[k])
                if part == 0.0:
                    continue
                for kind in range(2):
                    columns[used], values[used] = kind * beams + beam, part * by_beam[k, kind]
                    used += 1
            for node in range(3):
                part = parts[k, node]
                if part == 0.0:
                    continue
                for a in range(6):
                    columns[used], values[used] = 2 * beams + 6 * (nodes[k] + node) + a, part * by_pose[k, a]
                    used += 1
            for a in range(3):
                right[a] += w * on_plane[a] * r
                for b in range(3):
                    plane[a, b] += w * on_plane[a] * on_plane[b]
            for i in range(used):
                c = columns[i]
                if place[c] < 0:
                    place[c] = count
                    touched[count] = c
                    for a in range(3):
                        coupling[count, a] = 0.0
                    score[count] = 0.0
                    count += 1
                score[place[c]] += w * values[i] * r
                for a in range(3):
                    coupling[place[c], a] += w * values[i] * on_plane[a]
                for j in range(used):
                    if columns[j] >= c:
                        matrix[c, columns[j]] += w * values[i] * values[j]
        ridge = _RIDGE * (plane[0, 0] + plane[1, 1] + plane[2, 2])
        for a in range(3):
            plane[a, a] += ridge
        inverse = _inverse(plane)
        for i in range(count):
            for a in range(3):
                solved[i, a] = inverse[a, 0] * coupling[i, 0] + inverse[a, 1] * coupling[i, 1] + inverse[a, 2] * coupling[i, 2]
            score[i] -= solved[i, 0] * right[0] + solved[i, 1] * right[1] + solved[i, 2] * right[2]
            gradient[touched[i]] += score[i]
        for i in range(count):
            c = touched[i]
            for j in range(count):
                d = touched[j]
                if d >= c:
                    matrix[c, d] -= solved[i, 0] * coupling[j, 0] + solved[i, 1] * coupling[j, 1] + solved[i, 2] * coupling[j, 2]
            place[c] = -1


@kernel
def _inverse(A):  # (3, 3), symmetric and positive definite
    B = np.empty((3, 3))
    B[0, 0] = A[1, 1] * A[2, 2] - A[1, 2] * A[1, 2]
    B[0, 1] = B[1, 0] = A[0, 2] * A[1, 2] - A[0, 1] * A[2, 2]
    B[0, 2] = B[2, 0] = A[0, 1] * A[1, 2] - A[0, 2] * A[1, 1]
    B[1, 1] = A[0, 0] * A[2, 2] - A[0, 2] * A[0, 2]
    B[1, 2] = B[2, 1] = A[0, 1] * A[0, 2] - A[0, 0] * A[1, 2]
    B[2, 2] = A[0, 0] * A[1, 1] - A[0, 1] * A[0, 1]
    determinant = A[0, 0] * B[0, 0] + A[0, 1] * B[0, 1] + A[0, 2] * B[0, 2]
    return B / determinant


# Standard deviations of a return: across any surface (roughness, bends within a cell), along the beam, and across it.
_SURFACE, _RANGE, _ANGLE = 0.01, 0.02, np.radians(0.02)  # meters, meters, radians
_GRAZING = 0.02  # least cosine between beam and normal; at smaller ones the beam hardly meets the plane
# Effective returns per beam and stretch. More returns than this only average noise that is already smaller than what no model
# holds (uneven ground, the footprint of a beam, motion within a scan): with it, a beam's mean height on level ground is known to
# about a millimeter. Near ground gives most of the returns and far ground most of the knowledge, so all beams count alike.
_ENOUGH = 300.0
_REWEIGHTED = 2  # plane fits per round, each with the robust weights of the one before
_POSE_STEP = np.array([np.radians(1.0)] * 3 + [0.3] * 3)  # radians and meters: damping of directions that no plane constrains
_FIXED = 1e12  # weight of the first pose of a stretch, which is the frame of all others


@dataclass(frozen=True, eq=False)
class Linear:
    """The linearized problem of one stretch."""

    rows: Rows
    planes: Planes  # the sound ones
    sigmas: np.ndarray  # (N,) meters, of the residuals


def linearize(stretch: Stretch, corrections: np.ndarray, width: float, planes: Planes | None = None) -> Linear:
    """Fit planes to the returns of a stretch with these (B, 2) corrections. `width` is that of the robust kernel, in sigmas.

    `planes` groups the returns; by default they are grouped by the cells that they are in.
    """
    returns, poses = stretch.returns, stretch.poses
    raw = returns.corrected(corrections)
    local = returns.at_stamps(raw, poses)
    R, t = poses[returns.scans, :3, :3], poses[returns.scans, :3, 3]
    world = np.einsum("nij,nj->ni", R, local) + t
    if planes is None:
        planes = group(world, returns.scans, np.where(returns.share < 0.5, returns.low, returns.high), stretch.cells)
    points, kept = world[planes.rows], planes.rows
    up, out = _directions(raw[kept])
    length = np.linalg.norm(raw[kept], axis=1)
    robust, sigmas = np.ones(len(points)), np.full(len(points), _SURFACE)
    for _ in range(1 + _REWEIGHTED):
        found = fit(points, planes, robust / sigmas**2)
        facing = np.einsum("nji,nj->ni", R[kept], found.normals)  # normals in the sensor frame
        across, along = np.einsum("ni,ni->n", facing, up), np.einsum("ni,ni->n", facing, out)
        sigmas = np.sqrt(_SURFACE**2 + (_RANGE * along) ** 2 + (_ANGLE * length * across) ** 2)
        robust = 1.0 / (1.0 + (found.residuals / (width * sigmas)) ** 2)
    # Derivatives are taken where the beam meets the plane. At the measured point they contain its noise, as the residual does, and
    # the two correlate: the vertical scale of the world, which planes hardly resist, would then shrink to lower the noise.
    grazing = np.abs(along) < _GRAZING
    ahead = -found.residuals / np.where(grazing, 1.0, along)
    reach = length + ahead
    shift = np.einsum("nij,nj->ni", R[kept], out) * ahead[:, None]
    beside = found.beside + np.einsum("nki,nk->ni", found.axes, shift)
    by_beam = np.stack([np.radians(1.0) * reach * across, along], axis=1)
    by_pose = np.concatenate([np.cross(local[kept] + ahead[:, None] * out, facing), facing], axis=1)
    good = found.sound[planes.members] & ~grazing & (reach > 0.0)
    sizes = np.bincount(planes.members[good], minlength=len(planes))
    chosen = kept[good]
    sound = Planes(chosen, np.concatenate([[0], np.cumsum(sizes)]), planes.normals)
    beams = np.where(returns.share[chosen] < 0.5, returns.low[chosen], returns.high[chosen])
    alike = np.minimum(1.0, _ENOUGH / np.bincount(beams, minlength=1)[beams])
    rows = Rows(
        sound.starts, returns.nodes[chosen], returns.parts[chosen], returns.low[chosen], returns.high[chosen],
        returns.share[chosen], beside[good], by_beam[good], by_pose[good], found.residuals[good],
        (robust / sigmas**2)[good] * alike,
    )  # fmt: skip
    return Linear(rows, sound, sigmas[good])


def _directions(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (N, 3), (N, 3)
    """Unit vectors: upward at a right angle to the beam, and along it."""
    level = np.maximum(np.hypot(points[:, 0], points[:, 1]), 1e-9)
    reach = np.maximum(np.hypot(level, points[:, 2]), 1e-9)
    rise = points[:, 2] / reach
    up = np.stack([-rise * points[:, 0] / level, -rise * points[:, 1] / level, level / reach], axis=1)
    return up, points / reach[:, None]


@dataclass(frozen=True, eq=False)
class _Reduced:
    """The equations of a stretch with its poses eliminated; `poses` gives them back."""

    matrix: np.ndarray  # (2 B, 2 B)
    gradient: np.ndarray  # (2 B,)
    by_beam: np.ndarray  # (6 S, 2 B)
    own: np.ndarray  # (6 S,)

    def pose_steps(self, beam_steps: np.ndarray) -> np.ndarray:  # (2 B,) -> (S, 6)
        return -(self.own + self.by_beam @ beam_steps).reshape(-1, 6)


def _reduce(full: Equations, beams: int) -> _Reduced:
    b = 2 * beams
    poses = full.matrix[b:, b:].copy()
    poses[np.diag_indices(len(poses))] += np.tile(_POSE_STEP**-2.0, len(poses) // 6)
    poses[np.diag_indices(6)] += _FIXED
    solved = np.linalg.solve(poses, np.column_stack([full.matrix[b:, :b], full.gradient[b:]]))
    by_beam, own = solved[:, :b], solved[:, b]
    cross = full.matrix[:b, b:]
    return _Reduced(full.matrix[:b, :b] - cross @ by_beam, full.gradient[:b] - cross @ own, by_beam, own)


@dataclass(frozen=True, eq=False)
class Adjusted:
    corrections: np.ndarray  # (B, 2) degrees, meters
    covariance: np.ndarray  # (2 B, 2 B) elevations first, then ranges
    stretches: list[Stretch]


def adjust(
    stretches: Sequence[Stretch], corrections: np.ndarray, prior: np.ndarray | None, widths: Sequence[float]
) -> Adjusted:  # (B, 2), (2 B, 2 B)
    """Solve with one step for each width of the robust kernel. `prior` is the inverse covariance of the corrections; None keeps
    them fixed and adjusts only the poses."""
    stretches, beams = list(stretches), len(corrections)
    covariance = np.zeros((2 * beams, 2 * beams))
    for width in widths:
        parts = _in_parallel(stretches, corrections, width)
        step = np.zeros(2 * beams)
        if prior is not None:
            covariance = np.linalg.inv(sum(part.matrix for part in parts) + prior)
            step = -covariance @ (sum(part.gradient for part in parts) + prior @ corrections.T.ravel())
        corrections = corrections + step.reshape(2, beams).T
        both = zip(stretches, parts, strict=True)
        stretches = [replace(stretch, poses=moved(stretch.poses, part.pose_steps(step))) for stretch, part in both]
    return Adjusted(corrections, covariance, stretches)


def _in_parallel(stretches: Sequence[Stretch], corrections: np.ndarray, width: float) -> list[_Reduced]:
    """One thread per stretch; each is computed in a fixed order, so the result does not depend on their number."""
    parts: list[_Reduced | None] = [None] * len(stretches)

    def work(begin: int, end: int) -> None:
        for i in range(begin, end):
            linear = linearize(stretches[i], corrections, width)
            parts[i] = _reduce(equations(linear.rows, len(corrections), len(stretches[i].poses)), len(corrections))

    run_chunks(work, len(stretches), smallest=1)
    return [part for part in parts if part is not None]
