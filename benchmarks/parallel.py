"""Run jobs in single-threaded processes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

from rich.progress import track

from poli.threads import use_one_thread

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def in_processes(work: Callable[[_Item], _Answer], items: Sequence[_Item], processes: int, what: str) -> list[_Answer]:
    """Apply `work` to each item, in order. After an error, waiting jobs are dropped; the next run resumes them."""
    with ProcessPoolExecutor(min(processes, len(items)), get_context("spawn"), use_one_thread) as pool:
        jobs = [pool.submit(work, item) for item in items]
        try:
            for job in track(as_completed(jobs), what, total=len(jobs)):
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [job.result() for job in jobs]
