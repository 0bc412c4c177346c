"""Order of originals and samples, for systems that read more from the order of the points than their fields say.

A-LOAM, for example, takes the time of a point from its place in the cloud, so samples at the end would all be late.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from poli.data.datasets.point_times import TIME_NAMES
from poli.tasks.densify.sample_fields import ring_of


def output_order(
    fields: Mapping[str, np.ndarray], parents: np.ndarray, count: int
) -> np.ndarray:  # each (N + S,), (S,) -> (N + S,)
    """The rows in the order of time and ring; without times, samples follow their parents. `count` rows are originals.

    Points of equal time and ring stay in the order of the scan, each original before its samples.
    """
    behind = np.concatenate([np.arange(count), parents])
    keys = [behind]
    time = next((fields[name] for name in TIME_NAMES if name in fields and fields[name].ndim == 1), None)
    if time is not None:
        ring = ring_of(fields)
        keys = [behind, *([] if ring is None else [ring.numbers]), time]
    return np.lexsort(keys)
