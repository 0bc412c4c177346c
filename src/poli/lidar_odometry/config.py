"""Decide whether and how the scans of a recording are deskewed: by the times of their points, by their azimuth, or not at all."""

from __future__ import annotations

import numpy as np

from poli.configs import OdometryConfig
from poli.errors import InputError
from poli.scan import Scan

_LONGEST = 1.5  # times the interval between scans: no scan lasts longer, so such times have another unit or origin
_FARTHEST = 1.0  # seconds of a point from the stamp of its scan
_SHORTEST = 1e-4  # seconds: a shorter scan has no skew worth correcting (3 mm at 30 m/s)


class PointTimes:
    """Gives scans usable point times, or none. `said` explains the last decision."""

    def __init__(self, config: OdometryConfig) -> None:
        self._mode, self._spin = config.deskew, config.spin
        self.said = "deskewing is off"

    def __call__(self, scan: Scan, period: float) -> Scan:  # seconds between scans
        """Return the scan with the field `time` if it is to be deskewed, and without it if not."""
        if self._mode == "azimuth":
            self.said = (
                f"deskewed by azimuth ({'clockwise' if self._spin.clockwise else 'counterclockwise'}, {period:.3g} s a turn)"
            )
            return self._spin.with_times(scan, period)
        problem = "deskewing is off" if self._mode == "off" else _problem(scan, period)
        if not problem:
            self.said = "deskewed by the times of the points"
            return scan
        if self._mode == "on":
            raise InputError(
                f"the scan cannot be deskewed: {problem}; for a spinning sensor without point times, pass deskew='azimuth'"
            )
        self.said = problem if self._mode == "off" else f"not deskewed: {problem}"
        return scan.without("time")


def _problem(scan: Scan, period: float) -> str:
    """Return why the times of the points cannot be used, or an empty string."""
    if "time" not in scan.fields:
        return "points have no times (field 'time')"
    times = np.asarray(scan.fields["time"], np.float64)
    if times.ndim != 1 or not np.isfinite(times).all():
        return "some points have no finite time"
    if not len(times):
        return ""
    earliest, latest = float(times.min()), float(times.max())
    if latest - earliest < _SHORTEST:
        return "all points have the same time"
    if max(-earliest, latest) > _FARTHEST:
        return f"point times reach {max(-earliest, latest):.3g} s from the stamp of the scan, more than {_FARTHEST:g} s"
    if latest - earliest > _LONGEST * period:
        return f"point times span {latest - earliest:.3g} s, but the next scan follows after {period:.3g} s"
    return ""
