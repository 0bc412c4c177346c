"""What is known about the errors of beams before any data: a common part, and a part of each beam."""

from __future__ import annotations

import numpy as np

from poli.beam_calibration import Rings

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
