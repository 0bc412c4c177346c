"""Stretches of a log: consecutive scans with the poses and the map of an odometry of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from poli.beam_calibration import BeamCalibration
from poli.scan import Scan
from poli.se3 import inverse
from poli.tasks.calibration.beams import Beams
from poli.tasks.calibration.returns import Returns, choose_returns
from poli.tasks.calibration.surfaces import Cells
from poli.tasks.odometry import Odometer, OdometryConfig, Status

LENGTH = 80  # scans of a stretch: long enough that ground far ahead in one scan is near in another
_HELD_OUT = 0.25  # of the scans
LEAST = 6  # scans of a stretch that are worth using


@dataclass(frozen=True, eq=False)
class Stretch:
    returns: Returns
    poses: np.ndarray  # (S, 4, 4) T_first_scan
    cells: Cells


def choose_stretches(count: int, most: int) -> tuple[list[range], list[range]]:
    """Split a log of `count` scans into stretches to learn from and stretches to hold out, which are the last quarter.

    If the log has more than `most` scans, only so many are used, in stretches that are spread evenly over it.
    """
    used = min(count, most)
    learned = used - round(_HELD_OUT * used)
    pieces = max(1, round(learned / LENGTH)), max(1, round((used - learned) / LENGTH))
    edges = np.concatenate([np.linspace(0, learned, pieces[0] + 1), np.linspace(learned, used, pieces[1] + 1)[1:]])
    shift = np.linspace(0, count - used, sum(pieces)).round().astype(int)
    ends = edges.round().astype(int)
    found = [range(int(a + s), int(b + s)) for a, b, s in zip(ends[:-1], ends[1:], shift, strict=True)]
    return found[: pieces[0]], found[pieces[0] :]


def track(
    read: Callable[[int], Scan],
    numbers: Sequence[int],
    beams: Beams,
    calibration: BeamCalibration | None,
    config: OdometryConfig,
    tell: Callable[[], None] = lambda: None,
) -> Stretch | None:
    """Run odometry on corrected scans. Return None if fewer than `LEAST` scans are tracked; the stretch ends where tracking does.

    `read` returns a scan by its number; `tell` is called after each.
    """
    odometer = Odometer(config)
    scans: list[Scan] = []
    for number in numbers:
        scan = read(number)
        step = odometer.add(calibration.apply(scan) if calibration else scan)
        tell()
        if (step.alignment is None and step.index > 0) or step.status is Status.RESTARTED:
            break
        scans.append(scan)
    if len(scans) < LEAST or odometer.map is None:
        return None
    stamps = [scan.stamp for scan in scans]
    seconds = np.arange(len(scans)) * 0.1 if None in stamps else (np.array(stamps) - stamps[0]) * 1e-9
    returns = choose_returns(scans, beams, seconds, config.deskew == "on")
    poses = odometer.poses[: len(scans)]
    return Stretch(returns, inverse(poses[0]) @ poses, Cells.of(odometer.map.field))
