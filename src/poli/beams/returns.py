"""What calibration takes from scans: the beams of the sensor, and evenly chosen returns as the sensor delivered them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from poli.beams.corrections import Beam, BeamCalibration, corrected, elevations_of, mixed, ring_numbers
from poli.errors import InputError
from poli.scan import Scan
from poli.se3 import inverse, log

_NEAR = 5.0  # meters: nearer returns have the largest error of the elevation
_BIN = 0.02  # degrees, of the histogram of elevations
_BLUR = 3  # bins: sigma of its smoothing
_VALLEY = 0.2  # of the lower peak beside it: highest valley between two beams
_LEAST_SHARE = 0.02  # of the median beam's returns: rarer rings are stray values, not beams
_FEW, _MANY = 8, 256  # beams of a sensor
_KNOTS, _STEP = 32, 1.0  # most knots, and least degrees between them
_SPAN = 0.5, 99.5  # percentiles of elevation that the knots cover
_PER_SCAN = 3000  # returns
# Meters. Where beams cannot be told apart, nearer returns mix them most, because their elevation depends most on the beam's place
# in the sensor. On KITTI's HDL-64E, ground within 8 m contradicts the ground beyond it.
_MIXED = 8.0


def find_beams(scans: Sequence[Scan]) -> BeamCalibration:
    """Return the beams of the sensor that took these scans, without corrections: from the field `ring`, as clusters of elevation,
    or, where those overlap, as knots of a function of it.

    Beams without a field can be told apart only if every return keeps its beam's elevation. The lasers of an HDL-64E sit up to 20
    cm apart, so the elevation of a beam changes with range, and scans that were deskewed are no longer seen from one point. There
    the corrections become a function of elevation that is linear between knots.
    """
    rings = [ring_numbers(scan) for scan in scans]
    elevations = np.concatenate([elevations_of(scan.points) for scan in scans])
    if all(numbers is not None for numbers in rings):
        numbers = np.concatenate([numbers for numbers in rings if numbers is not None])
        values, members, counts = np.unique(numbers, return_inverse=True, return_counts=True)
        known = np.flatnonzero(counts >= _LEAST_SHARE * np.median(counts))
        if _FEW <= len(known) <= _MANY:
            beams = [Beam(float(np.median(elevations[members == row])), ring=int(values[row])) for row in known]
            return BeamCalibration(tuple(beams), "field")
    far = np.concatenate([np.einsum("ni,ni->n", scan.points, scan.points) > _NEAR**2 for scan in scans])
    elevations = elevations[far]
    if len(elevations) < 1000:
        raise InputError(f"only {len(elevations)} returns are farther than {_NEAR:g} m; calibrating beams needs whole scans")
    peaks = _peaks(elevations)
    if peaks is not None:
        return BeamCalibration(tuple(map(Beam, peaks)), "nearest")
    low, high = np.percentile(elevations, _SPAN)
    knots = int(np.clip(round((high - low) / _STEP) + 1, 2, _KNOTS))
    return BeamCalibration(tuple(map(Beam, np.linspace(low, high, knots))), "between")


def _peaks(elevations: np.ndarray) -> np.ndarray | None:  # (N,) -> (B,)
    """The elevations of separate beams; None if beams overlap."""
    low = elevations.min() - 1.0
    counts = np.bincount(((elevations - low) / _BIN).astype(np.int64), minlength=1 + int(_BLUR * 8 + 1 / _BIN)).astype(np.float64)
    counts = np.append(counts, np.zeros(4 * _BLUR))
    window = np.exp(-0.5 * (np.arange(-4 * _BLUR, 4 * _BLUR + 1) / _BLUR) ** 2)
    smooth = np.convolve(counts, window / window.sum(), mode="same")
    tops = np.flatnonzero((smooth[1:-1] > smooth[:-2]) & (smooth[1:-1] >= smooth[2:])) + 1
    tops = tops[smooth[tops] > _LEAST_SHARE * np.max(smooth, initial=0.0)]
    if not _FEW <= len(tops) <= _MANY:
        return None
    valleys = np.array([smooth[a:b].min() for a, b in pairwise(tops)])
    if (valleys > _VALLEY * np.minimum(smooth[tops[:-1]], smooth[tops[1:]])).any():
        return None
    return low + (tops + 0.5) * _BIN


@dataclass(frozen=True, eq=False)
class Returns:
    """Returns of consecutive scans."""

    points: np.ndarray  # (N, 3) float64, in the sensor frame, not corrected
    scans: np.ndarray  # (N,) which scan, ascending
    low: np.ndarray  # (N,) beam
    high: np.ndarray  # (N,) beam
    share: np.ndarray  # (N,) of the second beam
    nodes: np.ndarray  # (N,) first of the three scans whose poses give that of the sensor at the return's time
    parts: np.ndarray  # (N, 3) their shares; without deskewing, that of its own scan is 1
    deskewed: bool  # whether the motion within scans is undone

    @property
    def beams(self) -> np.ndarray:  # (N,)
        """The beam nearest to each return."""
        return np.where(self.share < 0.5, self.low, self.high)

    def corrected(self, corrections: np.ndarray) -> np.ndarray:  # (B, 2) degrees and meters -> (N, 3)
        """The points with corrected beams, in the sensor frame."""
        return corrected(self.points, mixed(corrections, self.low, self.high, self.share))

    def at_stamps(self, points: np.ndarray, poses: np.ndarray) -> np.ndarray:  # (N, 3), (S, 4, 4) -> (N, 3)
        """The points in the sensor frame at the stamp of their scan, undoing the motion within it.

        The motion is a parabola, in the tangent space of the scan's pose, through the poses of three scans. A constant velocity
        is not enough: the pitch of a car on its springs changes by a tenth of a degree more or less, as a beam's error would.
        """
        if not self.deskewed:
            return points
        nodes = np.clip(np.arange(len(poses)) - 1, 0, len(poses) - 3)
        tangents = np.stack([[log(inverse(T) @ poses[first + j]) for j in range(3)] for first, T in zip(nodes, poses, strict=True)])
        xi = np.einsum("nj,nja->na", self.parts, tangents[self.scans])  # (N, 6)
        turn, move = xi[:, :3], xi[:, 3:]
        angle = np.maximum(np.linalg.norm(turn, axis=1, keepdims=True), 1e-9)
        axis = turn / angle
        sine, versine = np.sin(angle), 1.0 - np.cos(angle)
        about_points, about_move = np.cross(axis, points), np.cross(axis, move)
        rotated = points + sine * about_points + versine * np.cross(axis, about_points)
        return rotated + move + (versine / angle) * about_move + (1.0 - sine / angle) * np.cross(axis, about_move)


def choose_returns(scans: Sequence[Scan], beams: BeamCalibration, seconds: np.ndarray, deskewed: bool) -> Returns:
    """Choose up to `_PER_SCAN` returns of each scan, about as many from each beam, evenly spaced in azimuth.

    `seconds` are the stamps of the scans, (S,). If `deskewed`, the field `time` is used.
    """
    chosen = [_evenly(scan, beams) for scan in scans]
    points, low, high, share = (np.concatenate(column) for column in list(zip(*chosen, strict=True))[:4])
    which = np.repeat(np.arange(len(scans)), [len(part[0]) for part in chosen])
    nodes = np.clip(which - 1, 0, len(scans) - 3)
    parts = (which[:, None] == nodes[:, None] + np.arange(3)).astype(np.float64)
    if deskewed:  # the shares of three nodes in the parabola through them (Lagrange)
        after = np.concatenate([scan.fields["time"][part[4]].astype(np.float64) for scan, part in zip(scans, chosen, strict=True)])
        at, (a, b, c) = seconds[which] + after, seconds[nodes + np.arange(3)[:, None]]
        parts[:, 0] = (at - b) * (at - c) / ((a - b) * (a - c))
        parts[:, 1] = (at - a) * (at - c) / ((b - a) * (b - c))
        parts[:, 2] = (at - a) * (at - b) / ((c - a) * (c - b))
    return Returns(points, which, low, high, share, nodes, parts, deskewed)


def _evenly(scan: Scan, beams: BeamCalibration) -> tuple[np.ndarray, ...]:
    points = scan.points.astype(np.float64)
    low, high, share = beams.of_returns(scan)
    nearest = np.where(share < 0.5, low, high)
    least = _MIXED if beams.rings == "between" else 0.0
    usable = np.flatnonzero((low >= 0) & (np.hypot(points[:, 0], points[:, 1]) > least))
    azimuth = np.arctan2(points[usable, 1], points[usable, 0])
    usable = usable[np.lexsort((azimuth, nearest[usable]))]
    counts = np.bincount(nearest[usable])
    counts = counts[counts > 0]
    most = max(1, _PER_SCAN // max(1, len(counts)))
    each = [np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)) for count in counts]
    firsts = np.cumsum(counts) - counts
    rows = usable[np.concatenate([first + of_beam for first, of_beam in zip(firsts, each, strict=True)] or [usable])]
    return points[rows], low[rows], high[rows], share[rows], rows
