"""Run jobs in this process, in worker processes, or on a dask cluster. The output is identical."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from poli.errors import InputError, MissingExtra, PoliError
from poli.threads import start_worker, use_one_thread


class Promise(Protocol):
    def result(self) -> Any: ...

    def done(self) -> bool: ...


class Engine(Protocol):
    """Runs jobs. Callers keep at most `window` unfetched jobs, so that memory stays bounded."""

    window: int

    def submit(self, work: Callable[[Any], Any], job: Any) -> Promise: ...


@dataclass(frozen=True)
class Certificates:
    """PEM files for the TLS connection to a dask cluster."""

    authority: Path  # CA that signed the certificates of the scheduler and the workers
    certificate: Path  # of this process
    key: Path  # of the certificate


@contextmanager
def engine(workers: int = 1, scheduler: str | None = None, certificates: Certificates | None = None) -> Iterator[Engine]:
    """Yield an engine: this process with all its threads for one worker, else one single-threaded process per worker.

    If given, `scheduler` is the address of a dask scheduler that is used instead.
    """
    if scheduler is not None:
        with _cluster(scheduler, certificates) as found:
            yield found
    elif workers == 1:
        yield _Here()
    else:
        # Spawned, not forked: threads and compiled kernels do not survive a fork.
        pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker)
        try:
            yield _Processes(pool, workers)
        finally:
            pool.shutdown(cancel_futures=True)


class _Done:
    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self) -> Any:
        return self._value

    def done(self) -> bool:
        return True


class _Here:
    window = 1

    def submit(self, work: Callable[[Any], Any], job: Any) -> Promise:
        return _Done(work(job))


class _Processes:
    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self._pool, self.window = pool, 2 * workers

    def submit(self, work: Callable[[Any], Any], job: Any) -> Promise:
        with _named_loss():
            return _FromProcess(self._pool.submit(work, job))


class _FromProcess:
    def __init__(self, future: Any) -> None:
        self._future = future

    def result(self) -> Any:
        with _named_loss():
            return self._future.result()

    def done(self) -> bool:
        return self._future.done()


@contextmanager
def _named_loss() -> Iterator[None]:
    try:
        yield
    except BrokenExecutor:
        raise PoliError("a worker died, possibly out of memory; retry with fewer workers (finished scans are kept)") from None


# --- dask

_PATIENCE = 20  # seconds to wait for the scheduler to answer, and for lost workers to return


class _Cluster:
    def __init__(self, client: Any) -> None:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"{client.scheduler.address}: this scheduler has no workers; start some with `dask worker`")
        self._client, self.window = client, 2 * threads

    def submit(self, work: Callable[[Any], Any], job: Any) -> Promise:
        # Scatter large messages before the task: the scheduler should not carry them.
        where = self._client.scatter(job, hash=False) if isinstance(job, Large) else job
        return _FromCluster(self._client.submit(_on_one_thread, work, where, pure=False), self._client)


class _FromCluster:
    def __init__(self, future: Any, client: Any) -> None:
        self._future, self._client = future, client

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> Any:
        from distributed import KilledWorker

        while True:
            try:
                return self._future.result(timeout=_PATIENCE)
            except TimeoutError:  # dask would wait forever
                if self._future.done():
                    raise
                if self._client.nthreads():
                    continue
                lost = "all its workers"
            except KilledWorker:
                lost = "every worker that tried this scan, possibly out of memory"
            except CancelledError:
                lost = "its scheduler or this job"
            raise PoliError(f"the cluster has lost {lost}; check the cluster and retry (finished scans are kept)") from None


class Large(tuple):
    """A job of several megabytes."""


def _on_one_thread(work: Callable[[Any], Any], job: Any) -> Any:
    use_one_thread()  # the worker runs one task per core
    return work(job)


@contextmanager
def _cluster(address: str, certificates: Certificates | None) -> Iterator[_Cluster]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra("working on a cluster", "cluster") from None
    security = None if certificates is None else _security(address, certificates)
    try:
        # If none are given, dask uses the certificates of its configuration.
        client = Client(address, timeout=_PATIENCE, set_as_default=False, security=security)
    except (OSError, ValueError, TypeError) as error:  # TypeError: tls:// without certificates
        raise InputError(f"--scheduler {address}: no dask scheduler answers there ({str(error)[:120]})") from None
    with client:
        yield _Cluster(client)


def _security(address: str, certificates: Certificates) -> Any:
    import ssl

    from distributed.security import Security

    if not address.startswith("tls://"):
        raise InputError(f"--scheduler {address}: with certificates, the address must begin with tls://")
    for file in (certificates.authority, certificates.certificate, certificates.key):
        if not file.is_file():
            raise InputError(f"{file}: no such file; give the certificates of the cluster as PEM files")
    try:
        context = ssl.create_default_context(cafile=certificates.authority)
        context.load_cert_chain(certificates.certificate, certificates.key)
    except (ssl.SSLError, OSError) as error:
        raise InputError(f"{certificates.certificate}: not usable with its key and authority ({error}); give PEM files") from None
    return Security(
        tls_ca_file=str(certificates.authority),
        tls_client_cert=str(certificates.certificate),
        tls_client_key=str(certificates.key),
        require_encryption=True,
    )
