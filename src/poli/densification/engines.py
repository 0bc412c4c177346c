"""Run jobs in this process, in worker processes, or on a dask cluster. The output is identical."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple

from poli.errors import InputError, MissingExtra, PoliError
from poli.threads import start_worker, use_one_thread

_PATIENCE = 20  # seconds to wait for a scheduler to answer, and for lost workers to return


class Engine(NamedTuple):
    """Runs jobs. Callers keep at most `window` unfetched jobs, so that memory stays bounded."""

    window: int
    submit: Callable[[Callable[[Any], Any], Any], Any]  # of a function and its argument; returns a future
    result: Callable[[Any], Any] = lambda future: future.result()


@contextmanager
def engine(workers: int = 1, scheduler: str | None = None) -> Iterator[Engine]:
    """Yield an engine: this process with all its threads for one worker, else one single-threaded process per worker.

    If given, `scheduler` is the address of a dask scheduler that is used instead.
    """
    if scheduler is not None:
        with _cluster(scheduler) as found:
            yield found
    elif workers == 1:
        yield Engine(1, _do_now)
    else:
        # Spawned, not forked: threads and compiled kernels do not survive a fork.
        pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker)
        try:
            yield Engine(2 * workers, pool.submit)
        except BrokenExecutor:
            raise PoliError("a worker died, possibly out of memory; retry with fewer workers (finished scans are kept)") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _do_now(work: Callable[[Any], Any], job: Any) -> Future:
    future: Future = Future()
    future.set_result(work(job))
    return future


def _do_on_one_thread(work: Callable[[Any], Any], job: Any) -> Any:
    use_one_thread()  # a worker of a cluster runs one task per core
    return work(job)


@contextmanager
def _cluster(address: str) -> Iterator[Engine]:
    """Connect to a scheduler; for tls://, with the certificates of dask's configuration."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise MissingExtra("working on a cluster", "cluster") from None
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # TypeError: tls:// without certificates
        raise InputError(f"--scheduler {address}: no dask scheduler answers there ({str(error)[:120]})") from None

    def lost(what: str) -> PoliError:
        return PoliError(f"the cluster has lost {what}; check the cluster and retry (finished scans are kept)")

    def submit(work: Callable[[Any], Any], job: Any) -> Any:
        try:  # scattered before the task: the scheduler should not carry messages of several megabytes
            (there,) = client.scatter([job], hash=False, timeout=_PATIENCE)
        except TimeoutError:
            raise lost("all its workers") from None
        return client.submit(_do_on_one_thread, work, there, pure=False)

    def result(future: Any) -> Any:
        while True:
            try:
                return future.result(timeout=_PATIENCE)
            except TimeoutError:  # dask would wait forever
                if future.done():
                    raise
                if not client.nthreads():
                    raise lost("all its workers") from None

    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"{address}: this scheduler has no workers; start some with `dask worker`")
        try:
            yield Engine(2 * threads, submit, result)
        except KilledWorker:
            raise lost("every worker that tried this scan, possibly out of memory") from None
        except CancelledError:
            raise lost("its scheduler or this job") from None
