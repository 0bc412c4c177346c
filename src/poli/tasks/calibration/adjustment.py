"""Joint least squares: corrections of the beams, poses of the scans, and planes, so that the planes become thin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poli.tasks.calibration.equations import Equations, Rows, equations
from poli.tasks.calibration.returns import moved
from poli.tasks.calibration.stretch import Stretch
from poli.tasks.calibration.surfaces import Planes, fit, group
from poli.threads import run_chunks

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
