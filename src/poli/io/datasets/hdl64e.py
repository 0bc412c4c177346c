"""KITTI's HDL-64E: recognize its scans by their elevations, correct its elevation error, and time its points.

All beams of KITTI's sensor point 0.205 degrees too low. Flat ground then looks like a shallow bowl, and odometry climbs: by 3.2 m
over 200 m with 16 beams. IMLS-SLAM (Deschaud, ICRA 2018) describes the error, and KISS-ICP corrects it in the same way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from poli.beams.corrections import PERIOD, Spin
from poli.errors import InputError, PoliError
from poli.io.formats.bin import read_kitti_bin
from poli.options import real_array
from poli.scan import Scan

ELEVATION_ERROR = 0.205  # degrees that the beams point too low

# Elevations of the returns, in degrees, at quantiles of a scan, as bounds. Measured in three drives with 64, 32, 16 and 8 beams:
# -23.8 to -21.6, -21.6 to -20.7, -11.3 to -6.7, and -0.8 to 4.1. The third pair of bounds excludes sensors whose beams are denser
# around the horizon than below (Pandar64, VLS-128), the others all narrower and wider sensors.
_QUANTILES = (0.005, 0.05, 0.5, 0.995)
_LEAST, _MOST = (-25.0, -22.8, -13.5, -1.5), (-20.5, -18.5, -4.5, 5.0)

# The lasers of an HDL-64E do not start from one point, so the elevation of a beam depends on the range. Beams of other sensors and
# of simulations have a constant elevation. Entropies of two histograms distinguish them: a bin of the coarse one, which is as wide
# as the distance of the beams, contains 5 to 19 filled bins of the fine one in KITTI, and 1 to 2.5 if elevations are constant.
_FROM, _TO = -22.0, -2.0  # degrees
_COARSE, _FINE = 0.42, 0.02  # degrees
_SMEARED = 3.5  # fine bins per coarse bin

_FEWEST = 2_000  # returns of a scan that has enough of them to judge
_SAMPLES = 5  # scans, spread over the sequence: a single one may be obstructed

_SHORTEST, _LONGEST = 0.05, 0.2  # seconds: periods of a spinning sensor


def correct_elevation(points: np.ndarray, degrees: float = ELEVATION_ERROR) -> np.ndarray:  # (N, 3) -> (N, 3)
    """Turn every point up by `degrees` about the horizontal axis through the sensor. Ranges and azimuths do not change.

    The default corrects the scans of KITTI. Use it if scans were opened with `correct_elevation=False`, for example to select beams
    by elevation first.
    """
    original = np.asarray(points)
    if original.ndim != 2 or original.shape[1] != 3:
        raise InputError(f"points has shape {original.shape}; expected (N, 3)")
    x, y, z = real_array(original, "points").T
    angle, flat = np.deg2rad(degrees), np.hypot(x, y)
    turned = np.divide(np.cos(angle) * flat - np.sin(angle) * z, flat, out=np.ones_like(flat), where=flat > 0.0)
    up = np.where(flat > 0.0, np.sin(angle) * flat + np.cos(angle) * z, z)
    corrected = np.stack([turned * x, turned * y, up], axis=1)
    return corrected.astype(original.dtype) if original.dtype.kind == "f" else corrected


def is_hdl64e(points: np.ndarray) -> bool:  # (N, 3)
    """Whether the elevations are those of a real HDL-64E, possibly thinned to every second, fourth or eighth beam."""
    flat, z = np.hypot(points[:, 0], points[:, 1], dtype=np.float64), points[:, 2].astype(np.float64)
    seen = np.isfinite(flat) & np.isfinite(z) & (flat > 0.0)
    if seen.sum() < _FEWEST:
        return False
    elevation = np.degrees(np.arctan2(z[seen], flat[seen]))
    found = np.quantile(elevation, _QUANTILES)
    if (found < _LEAST).any() or (found > _MOST).any():
        return False
    return _occupied_bins(elevation, _FINE) > _SMEARED * _occupied_bins(elevation, _COARSE)


def _occupied_bins(elevation: np.ndarray, width: float) -> float:  # (N,) degrees
    """Number of equally filled bins with the entropy of the histogram."""
    counts = np.histogram(elevation, np.arange(_FROM, _TO, width))[0]
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(np.exp(-(shares * np.log(shares)).sum()))


@dataclass(frozen=True, eq=False)
class Hdl64eReader:
    """Read the scans of one sequence, correct their elevations, and derive point times. None: only for an HDL-64E."""

    files: tuple[Path, ...]
    corrected: bool | None  # whether to correct the elevation
    timed: bool | None  # whether to derive times from the azimuth
    period: float = PERIOD  # seconds per revolution

    def __call__(self, path: Path) -> Scan:
        scan = read_or_empty_bin(path)
        if not len(scan):
            return scan
        if self.corrects:
            scan = replace(scan, points=correct_elevation(scan.points))
        if self._is_hdl64e if self.timed is None else self.timed:
            scan = Spin().with_times(scan, self.period)
        return scan

    @property
    def corrects(self) -> bool:
        """Whether elevations are corrected."""
        return self._is_hdl64e if self.corrected is None else self.corrected

    @cached_property
    def _is_hdl64e(self) -> bool:
        """Decided once, at the first scan, by a majority of scans spread over the sequence."""
        votes = [is_hdl64e(scan.points) for scan in self._samples()]
        return 2 * sum(votes) > len(votes)

    def _samples(self) -> Iterator[Scan]:
        last = len(self.files) - 1
        for row in dict.fromkeys(round(share * last) for share in np.linspace(0.0, 1.0, _SAMPLES)):
            try:
                yield read_or_empty_bin(self.files[row])
            except (OSError, PoliError):  # reported when that scan is read
                continue


def read_or_empty_bin(path: Path) -> Scan:
    """Read a scan; an empty file is a scan without points."""
    if path.stat().st_size == 0:
        return Scan(np.zeros((0, 3), np.float32), {"intensity": np.zeros(0, np.float32)})
    return read_kitti_bin(path)


def scan_period(stamps: Sequence[int] | None) -> float:  # nanoseconds
    """Seconds per revolution: the median difference of the stamps if it is plausible, otherwise 0.1 s."""
    if stamps is None or len(stamps) < 2:
        return PERIOD
    period = float(np.median(np.diff(np.array(stamps, np.int64)))) * 1e-9
    return period if _SHORTEST <= period <= _LONGEST else PERIOD
