"""What a dataset is: scans in order, their poses where these are known, and a list of what was left out.

Stamps are whole nanoseconds throughout: a float64 of seconds since 1970 is wrong by a tenth of a microsecond and more, and two
stamps that should be equal are then not.
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
    """Something of a dataset was left out; the message counts it."""


@dataclass(frozen=True)
class Skipped:
    """One thing that a dataset leaves out."""

    what: str  # the file
    why: str


@runtime_checkable
class Dataset(Protocol):
    """A sequence of scans. A scan's field `time` counts seconds from its stamp.

    `dataset[i]` reads scan i and nothing else. A scan without a single return (an empty file) is a `Scan` of 0 points, so that
    indices keep their meaning; `occupied` passes over such scans and counts them.
    """

    @property
    def name(self) -> str: ...

    @property
    def poses(self) -> np.ndarray | None:  # (M, 4, 4) float64
        """T_world_sensor of each of the scans, or None where they are not known."""

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was left out of the sequence when it was opened, and why."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Scan: ...

    def __iter__(self) -> Iterator[Scan]: ...


def row_of(index: int, count: int) -> int:
    """A Python index as a row number from 0; negative ones count from the end."""
    row = operator.index(index)
    row += count if row < 0 else 0
    if not 0 <= row < count:
        raise IndexError(f"scan {index} of a dataset of {count}")
    return row


def occupied(dataset: Dataset, least: int = 1) -> Iterator[tuple[int, Scan]]:
    """Index and scan of every scan with `least` points or more; the others are counted and named in one warning at the end."""
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
    """One warning that counts what was left out by its reason and names the first of each."""
    if not skipped:
        return
    first = {skip.why: skip.what for skip in reversed(skipped)}
    counts = Counter(skip.why for skip in skipped)
    listed = "; ".join(f"{count} ({why}; the first is {first[why]})" for why, count in counts.items())
    warnings.warn(f"{name}: scans left out: {listed}", SkippedWarning, stacklevel=3)
