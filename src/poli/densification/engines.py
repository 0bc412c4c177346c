"""Run jobs in this process, in worker processes, or on a dask cluster. The output is identical."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from poli.errors import InputError, MissingExtra, PoliError
from poli.threads import start_worker, use_one_thread

_PATIENCE = 20  # seconds to wait for a scheduler to answer, and for lost workers to return


class Engine:
    """Runs jobs in this process. Callers keep at most `window` unfetched jobs, so that memory stays bounded."""

    window = 1

    def submit(self, work: Callable[[Any], Any], job: Any) -> Any:
        """Start `work(job)` and return its future."""
        future: Future = Future()
        future.set_result(work(job))
        return future

    def result(self, future: Any) -> Any:
        """Wait for a job and return its result."""
        return future.result()


@contextmanager
def engine(workers: int = 1, scheduler: str | None = None) -> Iterator[Engine]:
    """Yield an engine: this process with all its threads for one worker, else one single-threaded process per worker.

    If given, `scheduler` is the address of a dask scheduler that is used instead.
    """
    if scheduler is not None:
        with _client(scheduler) as client:
            yield _Cluster(client)
    elif workers == 1:
        yield Engine()
    else:
        # Spawned, not forked: threads and compiled kernels do not survive a fork.
        pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker)
        try:
            yield _Processes(pool, workers)
        finally:
            pool.shutdown(cancel_futures=True)


class _Processes(Engine):
    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self.pool, self.window = pool, 2 * workers

    def submit(self, work: Callable[[Any], Any], job: Any) -> Any:
        with _named_loss():
            return self.pool.submit(work, job)

    def result(self, future: Any) -> Any:
        with _named_loss():
            return future.result()


@contextmanager
def _named_loss() -> Iterator[None]:
    try:
        yield
    except BrokenExecutor:
        raise PoliError("a worker died, possibly out of memory; retry with fewer workers (finished scans are kept)") from None


class _Cluster(Engine):
    def __init__(self, client: Any) -> None:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"{client.scheduler.address}: this scheduler has no workers; start some with `dask worker`")
        self.client, self.window = client, 2 * threads

    def submit(self, work: Callable[[Any], Any], job: Any) -> Any:
        # Scattered before the task: the scheduler should not carry messages of several megabytes.
        try:
            (there,) = self.client.scatter([job], hash=False, timeout=_PATIENCE)
        except TimeoutError:
            raise _lost("all its workers") from None
        return self.client.submit(_on_one_thread, work, there, pure=False)

    def result(self, future: Any) -> Any:
        from distributed import KilledWorker

        while True:
            try:
                return future.result(timeout=_PATIENCE)
            except TimeoutError:  # dask would wait forever
                if future.done():
                    raise
                if self.client.nthreads():
                    continue
                raise _lost("all its workers") from None
            except KilledWorker:
                raise _lost("every worker that tried this scan, possibly out of memory") from None
            except CancelledError:
                raise _lost("its scheduler or this job") from None


def _lost(what: str) -> PoliError:
    return PoliError(f"the cluster has lost {what}; check the cluster and retry (finished scans are kept)")


def _on_one_thread(work: Callable[[Any], Any], job: Any) -> Any:
    use_one_thread()  # the worker runs one task per core
    return work(job)


def _client(address: str) -> Any:
    """Connect to a scheduler; for tls://, with the certificates of dask's configuration."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra("working on a cluster", "cluster") from None
    try:
        return Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # TypeError: tls:// without certificates
        raise InputError(f"--scheduler {address}: no dask scheduler answers there ({str(error)[:120]})") from None
