"""Stages whose turns threads share (`threads.run_turns`)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit

from poli.kernel import in_turns
from poli.threads import run_turns
from poli.turns import take

COUNT = 400


@njit(nogil=True)
def mirror(source, turns, target):
    """Write twice the mirrored source, so that every turn needs one that another thread may have taken."""
    i = take(turns)
    while i < turns[1]:
        total = 0.0
        for _ in range(200):  # long enough that threads overlap
            total += source[len(source) - 1 - i] / 100.0
        target[i] = total
        i = take(turns)


def chain(length: int) -> np.ndarray:
    values = [np.arange(COUNT, dtype=np.float64), *(np.full(COUNT, np.nan) for _ in range(length))]
    run_turns(*((in_turns(mirror, values[n], values[n + 1]), COUNT) for n in range(length)), dependent=True)
    return values[-1]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_stage_starts_when_the_one_before_is_complete(threads, monkeypatch):
    monkeypatch.setenv("POLI_NUM_THREADS", str(threads))
    for _ in range(20):
        np.testing.assert_allclose(chain(6), 64.0 * np.arange(COUNT))


def test_several_callers_at_once(monkeypatch):
    monkeypatch.setenv("POLI_NUM_THREADS", "3")
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(chain, [5] * 40):
            np.testing.assert_allclose(found, 32.0 * np.arange(COUNT)[::-1])


def test_stages_are_reported_in_order_by_the_caller():
    ended: list[int] = []
    nothing = (lambda turns: None, COUNT)
    run_turns(nothing, nothing, nothing, ended=ended.append)
    assert ended == [0, 1, 2]


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_an_error_ends_all_stages(broken, monkeypatch):
    monkeypatch.setenv("POLI_NUM_THREADS", "4")
    values = np.zeros(COUNT)

    def fail(turns: np.ndarray) -> None:
        raise ValueError("broken")

    stages = [in_turns(mirror, values, np.zeros(COUNT)) for _ in range(3)]
    stages[broken] = fail
    for _ in range(20):
        with pytest.raises(ValueError, match="broken"):
            run_turns(*((stage, COUNT) for stage in stages), dependent=True)
