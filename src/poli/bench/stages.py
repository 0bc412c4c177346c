"""Where the time of one estimate goes."""

from __future__ import annotations

import time

import numpy as np

from poli.estimation.grouping import Sight
from poli.estimation.inference import load_model
from poli.estimation.runtime import covariances

STAGES = ("sampling", "neighbours", "network", "interpolation")
UPRIGHT = Sight(np.zeros(3), np.array([0.0, 0.0, 1.0]))  # a sensor at the origin, as `estimate` has it unless told


def stage_times(points: np.ndarray, model: str) -> dict[str, float]:
    """Milliseconds of each stage."""
    network = load_model(model)
    spent = dict.fromkeys(STAGES, 0.0)
    last = time.perf_counter()

    def watch(stage: str) -> None:
        nonlocal last
        now = time.perf_counter()
        spent[stage] += 1e3 * (now - last)
        last = now

    covariances(points, network.architecture, network.weights, network.calibration, UPRIGHT, watch)
    return spent
