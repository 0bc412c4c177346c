"""What odometry receives and returns: validated scans, and poses at the instants of their stamps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poli.errors import InputError
from poli.scan import Scan, ScanLike
from poli.se3 import exp, inverse, log


@dataclass(frozen=True, eq=False)
class Track:
    """Result of an odometry on a drive."""

    poses: np.ndarray  # (M, 4, 4): each scan in the frame of the first, at its stamp
    seconds: np.ndarray  # (M,): wall time of each scan, from raw points to pose


Run = Callable[[Iterable[ScanLike]], Track]


def checked(scans: Iterable[ScanLike]) -> Iterator[Scan]:
    """Yield validated scans in float64, which all methods need, so that conversion is not timed. Dense scans stay lazy."""
    number = -1
    for number, scan in enumerate(scans):
        points: Any = scan.points if isinstance(scan, Scan) else scan
        if np.ndim(points) != 2 or np.shape(points)[1] != 3 or not len(points):
            raise InputError(f"scans[{number}] has shape {np.shape(points)}; expected (N, 3) with N of at least 1")
        points = np.ascontiguousarray(points, np.float64)
        yield replace(scan, points=points) if isinstance(scan, Scan) else Scan(points)
    if number < 0:
        raise InputError("scans: there are none; odometry needs at least one")


def without_times(scans: Iterable[ScanLike]) -> list[Scan]:
    """The scans as if their points had been measured at once."""
    every = [Scan.of(scan) for scan in scans]
    return [scan.keep(*(name for name in scan.fields if name != "time")) for scan in every]


def from_first(poses: np.ndarray) -> np.ndarray:  # (M, 4, 4) -> (M, 4, 4)
    return inverse(poses[0]) @ poses


def span(scan: Scan) -> tuple[float, float]:
    """Times of the first and the last point of a scan, in seconds from its stamp."""
    times = scan.fields["time"]
    return float(times.min()), float(times.max())


def stamp_share(scan: Scan) -> float:
    """When the stamp is, as a fraction of the scan: 0 at the first point, 1 at the last."""
    first, last = span(scan)
    return -first / (last - first)


def moved_to_stamp(poses: np.ndarray, instants: np.ndarray) -> np.ndarray:  # (M, 4, 4), (M,) -> (M, 4, 4)
    """Poses at the stamps, from poses at `instants`: how much later each is, as a fraction of the scan.

    For systems that deskew a scan with the motion between the two scans before it, to an instant that is not the stamp. Moving
    the pose back by that same motion is exact: it is the pose they would return if they deskewed to the stamp. The first two scans
    have no motion before them; such a system does not deskew them, and returns what any other one would.
    """
    motions = [np.zeros(6)] * min(2, len(poses)) + [log(inverse(poses[k - 2]) @ poses[k - 1]) for k in range(2, len(poses))]
    return np.stack([T @ exp(-late * motion) for T, late, motion in zip(poses, instants, motions, strict=True)])
