"""The dataset protocol: scans in order, their poses if known, and a list of what was skipped.

Stamps are integer nanoseconds throughout: seconds since 1970 in float64 are off by a tenth of a microsecond or more, so equal
stamps would compare unequal.
"""

import operator
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from poli.scan import Scan


class SkippedWarning(UserWarning):
    """Part of a dataset was skipped; the message says how much."""


@dataclass(frozen=True)
class Skipped:
    """A part of a dataset that was skipped."""

    what: str  # the file
    why: str


@runtime_checkable
class Dataset(Protocol):
    """A sequence of scans. The field `time` of a scan is in seconds from its stamp.

    `dataset[i]` reads only scan i. A scan without returns (an empty file) is a `Scan` of 0 points, which preserves the indices;
    `occupied` skips and counts such scans.
    """

    @property
    def name(self) -> str: ...

    @property
    def poses(self) -> np.ndarray | None:  # (M, 4, 4) float64
        """T_world_sensor of each scan, or None if unknown."""

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was skipped when the dataset was opened, and why."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Scan: ...

    def __iter__(self) -> Iterator[Scan]: ...


def row_of(index: int, count: int) -> int:
    """Convert a Python index, which may be negative, to a row number from 0."""
    row = operator.index(index)
    row += count if row < 0 else 0
    if not 0 <= row < count:
        raise IndexError(f"scan {index} is out of range for a dataset of {count} scans")
    return row


def occupied(dataset: Dataset, least: int = 1) -> Iterator[tuple[int, Scan]]:
    """Yield index and scan of every scan with at least `least` points; one warning at the end counts the others."""
    left_out = []
    try:
        for index, scan in enumerate(dataset):
            if len(scan) >= least:
                yield index, scan
            else:
                left_out.append(Skipped(f"scan {index}", "empty" if least == 1 else f"fewer than {least} points"))
    finally:
        warn_skipped(dataset.name, left_out)


def warn_skipped(name: str, skipped: Sequence[Skipped]) -> None:
    """Emit one warning that counts the skipped parts per reason and names the first of each."""
    if not skipped:
        return
    first = {skip.why: skip.what for skip in reversed(skipped)}
    counts = Counter(skip.why for skip in skipped)
    listed = "; ".join(f"{count} ({why}; the first is {first[why]})" for why, count in counts.items())
    warnings.warn(f"{name}: skipped scans: {listed}", SkippedWarning, stacklevel=3)
