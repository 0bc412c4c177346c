"""The order of a fixed set of samples: every epoch has each of them once, in a new order."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def drawn(seed: int, samples: int, number: int, size: int) -> list[int]:
    """Return the samples of a batch of this size and number. The order depends on the seed alone, so any run can go on anywhere."""
    return [int(_order(seed, i // samples, samples)[i % samples]) for i in range(number * size, (number + 1) * size)]


@lru_cache(4)  # a step would otherwise shuffle again
def _order(seed: int, epoch: int, samples: int) -> np.ndarray:  # (samples,)
    return np.random.default_rng([seed, epoch]).permutation(samples)
