"""Whether denser scans are likely to pay: not for scans that are dense already, or of near surfaces.

The rule is for odometry and registration by other systems, as measured in docs/results. A viewer may profit in any case.
"""

from __future__ import annotations

import numpy as np

from poli.scan import Scan

# Samples help where they fill gaps between rings (docs/densify.md). With 64 beams, registration by others had nothing left to gain,
# and with 128, odometry gained least, while every scan takes longer.
MANY_BEAMS = 64
MANY_RETURNS = 64 * 1024  # of a scan without rings: as many as 64 beams have with 1,024 returns each
# At this range, the rings of a VLP-16, 2 degrees apart, are 0.17 m apart: less than the voxels of the ellipsoids (0.2 m). There are
# no gaps between nearer rings, and the samples fall among the measured points.
NEAR = 5.0  # meters, median range
_LEAST = 16  # returns; fewer say nothing about the sensor


def why_little(scan: Scan) -> str:
    """Return in one sentence why denser scans are unlikely to help other systems, or "" if they may."""
    returns = scan.clean()
    if len(returns) < _LEAST:
        return ""
    reasons = [reason for reason in (_dense(returns), _near(returns)) if reason]
    if not reasons:
        return ""
    return f"{' and '.join(reasons)}: more points are unlikely to help other systems here, and they take more time"


def _dense(scan: Scan) -> str:
    rings = scan.fields.get("ring")
    if rings is not None and rings.ndim == 1:
        beams = len(np.unique(rings))
        return f"the scan has {beams} beams" if beams >= MANY_BEAMS else ""
    return f"the scan has {len(scan)} returns, as of {MANY_BEAMS} beams or more" if len(scan) >= MANY_RETURNS else ""


def _near(scan: Scan) -> str:
    distance = float(np.median(np.linalg.norm(scan.points.astype(np.float64), axis=1)))
    return f"half of the returns are nearer than {distance:.1f} m" if distance < NEAR else ""
