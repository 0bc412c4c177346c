"""The beams of a sensor: from the field `ring`, as clusters of elevation, or, where those overlap, as knots of a function of it.

Beams without a field can be told apart only if every return keeps its beam's elevation. The lasers of an HDL-64E sit up to 20 cm
apart, so the elevation of a beam changes with range, and scans that were deskewed are no longer seen from one point. There the
corrections become a function of elevation that is linear between knots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from poli.beam_calibration import Beam, BeamCalibration, Rings, elevations_of, ring_numbers
from poli.errors import InputError
from poli.scan import Scan

_NEAR = 5.0  # meters: nearer returns have the largest error of the elevation
_BIN = 0.02  # degrees, of the histogram of elevations
_BLUR = 3  # bins: sigma of its smoothing
_VALLEY = 0.2  # of the lower peak beside it: highest valley between two beams
_LEAST_SHARE = 0.02  # of the median beam's returns: rarer rings are stray values, not beams
_FEW, _MANY = 8, 256  # beams of a sensor
_KNOTS, _STEP = 32, 1.0  # most knots, and least degrees between them
_SPAN = 0.5, 99.5  # percentiles of elevation that the knots cover


@dataclass(frozen=True, eq=False)
class Beams:
    """How returns find their beams. `rings` has the meaning of `BeamCalibration.rings`."""

    rings: Rings
    elevations: np.ndarray  # (B,) degrees, nominal
    numbers: np.ndarray | None = None  # (B,) values of the field `ring`

    def __len__(self) -> int:
        return len(self.elevations)

    def of(self, scan: Scan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (N,), (N,), (N,)
        """The two beams of each return, and the share of the second. The first is -1 if the return has none."""
        if self.numbers is not None:
            numbers = ring_numbers(scan)
            if numbers is None:
                raise InputError("some scans have the field 'ring' and others do not; calibrate on scans of one kind")
            place = np.minimum(np.searchsorted(self.numbers, numbers), len(self) - 1)
            place = np.where(self.numbers[place] == numbers, place, -1)
            return place, place, np.zeros(len(scan))
        seen = elevations_of(scan.points)
        if self.rings == "nearest":
            place = np.searchsorted(0.5 * (self.elevations[:-1] + self.elevations[1:]), seen)
            return place, place, np.zeros(len(scan))
        low = np.clip(np.searchsorted(self.elevations, seen) - 1, 0, len(self) - 2)
        share = (seen - self.elevations[low]) / (self.elevations[low + 1] - self.elevations[low])
        return low, low + 1, np.clip(share, 0.0, 1.0)

    def calibration(self, corrections: np.ndarray, sigmas: np.ndarray, about: str = "") -> BeamCalibration:
        """Build a calibration from (B, 2) corrections and standard deviations, in degrees and meters."""
        rows = np.column_stack([self.elevations, corrections, sigmas]).tolist()
        numbers = [None] * len(self) if self.numbers is None else self.numbers.tolist()
        beams = [Beam(e, up, out, su, so, number) for (e, up, out, su, so), number in zip(rows, numbers, strict=True)]
        return BeamCalibration(tuple(beams), self.rings, about)


def find_beams(scans: Sequence[Scan]) -> Beams:
    """Return the beams of the sensor that took these scans."""
    rings = [ring_numbers(scan) for scan in scans]
    elevations = np.concatenate([elevations_of(scan.points) for scan in scans])
    if all(numbers is not None for numbers in rings):
        numbers = np.concatenate([numbers for numbers in rings if numbers is not None])
        values, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
        known = np.flatnonzero(counts >= _LEAST_SHARE * np.median(counts))
        if _FEW <= len(known) <= _MANY:
            nominal = np.array([np.median(elevations[inverse == row]) for row in known])
            return Beams("field", nominal, values[known])
    far = np.concatenate([np.einsum("ni,ni->n", scan.points, scan.points) > _NEAR**2 for scan in scans])
    elevations = elevations[far]
    if len(elevations) < 1000:
        raise InputError(f"only {len(elevations)} returns are farther than {_NEAR:g} m; calibrating beams needs whole scans")
    peaks = _peaks(elevations)
    if peaks is not None:
        return Beams("nearest", peaks)
    low, high = np.percentile(elevations, _SPAN)
    knots = int(np.clip(round((high - low) / _STEP) + 1, 2, _KNOTS))
    return Beams("between", np.linspace(low, high, knots))


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
