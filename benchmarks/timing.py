"""Time contestants in turns, in one process, with the same number of threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from poli.errors import InputError
from poli.estimation.estimate import load_model
from poli.estimation.ordered_cloud import Viewpoint
from poli.estimation.runtime.forward import forward
from poli.threads import thread_count

_TURNS = 3
_UNCOUNTED = 2  # untimed runs at the start of a turn


@contextmanager
def same_threads() -> Iterator[int]:
    """Give all contestants the library's number of threads. Enter it before importing rivals, which count cores on import.

    OpenMP reads an environment variable. Open3D has used TBB since 0.20, which has no such setting: the process is restricted to
    that many cores.
    """
    threads, variable = thread_count(), os.environ.get("OMP_NUM_THREADS")
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    there = len(cores) if cores else os.cpu_count() or 1
    if threads > there or (threads < there and not cores):
        raise InputError(f"POLI_NUM_THREADS is {threads}, but rivals run on {there} cores and cannot be limited; unset it")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        if cores:
            os.sched_setaffinity(0, sorted(cores)[:threads])
        yield threads
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
        if variable is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = variable


def stopwatch(work: Callable[[], object]) -> Callable[[], dict[str, float]]:
    """Wrap `work` into a measurement with one part, `total`, in milliseconds."""

    def measure() -> dict[str, float]:
        start = time.perf_counter()
        work()
        return {"total": 1e3 * (time.perf_counter() - start)}

    return measure


def medians(contestants: Mapping[str, Callable[[], dict[str, float]]], repeats: int) -> dict[str, dict[str, float]]:
    """Median milliseconds by contestant and part.

    The contestants take turns, so that slow phases of the machine affect all; a turn is a burst of runs after two uncounted runs,
    because the threads of the previous contestant keep spinning for a few milliseconds.
    """
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    turns = min(_TURNS, repeats)
    for turn in range(turns):
        counted = repeats * (turn + 1) // turns - repeats * turn // turns
        for name, measure in contestants.items():
            samples[name] += [measure() for _ in range(_UNCOUNTED + counted)][_UNCOUNTED:]
    return {name: {part: float(np.median([run[part] for run in runs])) for part in runs[0]} for name, runs in samples.items()}


# --- the stages of one estimate

STAGES = ("sampling", "neighbors", "network", "interpolation")
UPRIGHT = Viewpoint(np.zeros(3), np.array([0.0, 0.0, 1.0]))  # a sensor at the origin, the default of `estimate`


def stage_times(points: np.ndarray, model: str) -> dict[str, float]:
    """Median milliseconds of each stage."""
    network = load_model(model)
    spent = dict.fromkeys(STAGES, 0.0)
    last = time.perf_counter()

    def watch(stage: str) -> None:
        nonlocal last
        now = time.perf_counter()
        spent[stage] += 1e3 * (now - last)
        last = now

    forward(points, network.layers, network.calibration, UPRIGHT, watch)
    return spent
