"""The returns of a stretch of a log that calibration uses: evenly chosen from each beam, as the sensor delivered them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poli.beam_calibration import corrected
from poli.scan import Scan
from poli.se3 import exp, inverse, log
from poli.tasks.calibration.beams import Beams

PER_SCAN = 3000  # returns
# Meters. Where beams cannot be told apart, nearer returns mix them most, because their elevation depends most on the beam's place
# in the sensor. On KITTI's HDL-64E, ground within 8 m contradicts the ground beyond it.
_MIXED = 8.0


@dataclass(frozen=True, eq=False)
class Returns:
    points: np.ndarray  # (N, 3) float64, in the sensor frame, not corrected
    scans: np.ndarray  # (N,) which scan of the stretch, ascending
    low: np.ndarray  # (N,) beam
    high: np.ndarray  # (N,) beam
    share: np.ndarray  # (N,) of the second beam
    nodes: np.ndarray  # (N,) first of the three scans whose poses give that of the sensor at the return's time
    parts: np.ndarray  # (N, 3) their shares; without deskewing, that of its own scan is 1
    deskewed: bool  # whether the motion within scans is undone

    def corrected(self, corrections: np.ndarray) -> np.ndarray:  # (B, 2) degrees and meters -> (N, 3)
        """The points with corrected beams, in the sensor frame."""
        share = self.share[:, None]
        return corrected(self.points, (1.0 - share) * corrections[self.low] + share * corrections[self.high])

    def at_stamps(self, points: np.ndarray, poses: np.ndarray) -> np.ndarray:  # (N, 3), (S, 4, 4) -> (N, 3)
        """The points in the sensor frame at the stamp of their scan, undoing the motion within it.

        The motion is a parabola, in the tangent space of the scan's pose, through the poses of three scans. A constant velocity
        is not enough: the pitch of a car on its springs changes by a tenth of a degree more or less, as a beam's error would.
        """
        if not self.deskewed:
            return points
        nodes = np.minimum(np.maximum(np.arange(len(poses)) - 1, 0), len(poses) - 3)
        tangents = np.stack([[log(inverse(T) @ poses[first + j]) for j in range(3)] for first, T in zip(nodes, poses, strict=True)])
        return _carried(points, np.einsum("nj,nja->na", self.parts, tangents[self.scans]))


def _carried(points: np.ndarray, tangents: np.ndarray) -> np.ndarray:  # (N, 3), (N, 6) -> (N, 3)
    """Apply Exp of each tangent to its point."""
    turn, move = tangents[:, :3], tangents[:, 3:]
    angle = np.maximum(np.linalg.norm(turn, axis=1, keepdims=True), 1e-9)
    axis = turn / angle
    sine, versine = np.sin(angle), 1.0 - np.cos(angle)
    about_points, about_move = np.cross(axis, points), np.cross(axis, move)
    rotated = points + sine * about_points + versine * np.cross(axis, about_points)
    return rotated + move + (versine / angle) * about_move + (1.0 - sine / angle) * np.cross(axis, about_move)


def moved(poses: np.ndarray, steps: np.ndarray) -> np.ndarray:  # (S, 4, 4), (S, 6) -> (S, 4, 4)
    return np.stack([T @ exp(xi) for T, xi in zip(poses, steps, strict=True)])


def choose_returns(scans: Sequence[Scan], beams: Beams, seconds: np.ndarray, deskewed: bool) -> Returns:
    """Choose up to `PER_SCAN` returns of each scan, about as many from each beam, evenly spaced in azimuth.

    `seconds` are the stamps of the scans, (S,). If `deskewed`, the field `time` is used.
    """
    chosen = [_evenly(scan, beams) for scan in scans]
    points, low, high, share = (np.concatenate(column) for column in list(zip(*chosen, strict=True))[:4])
    which = np.repeat(np.arange(len(scans)), [len(part[0]) for part in chosen])
    nodes = np.clip(which - 1, 0, len(scans) - 3)
    parts = (which[:, None] == nodes[:, None] + np.arange(3)).astype(np.float64)
    if deskewed:
        after = np.concatenate([scan.fields["time"][part[4]].astype(np.float64) for scan, part in zip(scans, chosen, strict=True)])
        parts = _lagrange(seconds[which] + after, seconds[nodes[:, None] + np.arange(3)])
    return Returns(points, which, low, high, share, nodes, parts, deskewed)


def _lagrange(at: np.ndarray, nodes: np.ndarray) -> np.ndarray:  # (N,), (N, 3) -> (N, 3)
    """Shares of three nodes in the parabola through them."""
    a, b, c = nodes.T
    return np.stack(
        [
            (at - b) * (at - c) / ((a - b) * (a - c)),
            (at - a) * (at - c) / ((b - a) * (b - c)),
            (at - a) * (at - b) / ((c - a) * (c - b)),
        ],
        axis=1,
    )


def _evenly(scan: Scan, beams: Beams) -> tuple[np.ndarray, ...]:
    points = scan.points.astype(np.float64)
    low, high, share = beams.of(scan)
    nearest = np.where(share < 0.5, low, high)
    nearest_used = _MIXED if beams.rings == "between" else 0.0
    usable = np.flatnonzero((low >= 0) & (np.hypot(points[:, 0], points[:, 1]) > nearest_used))
    azimuth = np.arctan2(points[usable, 1], points[usable, 0])
    usable = usable[np.lexsort((azimuth, nearest[usable]))]
    counts = np.bincount(nearest[usable], minlength=len(beams))
    kept: list[np.ndarray] = []
    first = 0
    most = max(1, PER_SCAN // max(1, int((counts > 0).sum())))
    for count in counts:
        if count:
            kept.append(usable[first + np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))])
        first += count
    rows = np.concatenate(kept) if kept else usable
    return points[rows], low[rows], high[rows], share[rows], rows
