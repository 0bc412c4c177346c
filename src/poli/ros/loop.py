"""The loop of the live node: take the newest cloud, process it, and log rate and latency."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from poli.errors import PoliError, printable
from poli.ros.transport import Transport

CLOUD = "sensor_msgs/PointCloud2"
_WAIT = 0.1  # seconds: how soon a signal or the end of ROS is noticed
_WARN_EVERY = 5.0  # seconds between warnings; those in between are counted
_KEPT = 100_000  # latest latencies, for the summary


class Job(Protocol):
    name: str

    def parameters(self) -> dict[str, Any]:
        """Parameters that can change at runtime, with their values."""

    def change(self, wanted: dict[str, Any]) -> None:
        """Change parameters from the next cloud on, or raise a PoliError."""

    def warm_up(self) -> None:
        """Load what the first cloud would otherwise wait for."""

    def process(self, cloud: Any) -> str:
        """Process a cloud and publish the result. Return a warning, or an empty string. A PoliError: nothing was published."""

    def after(self) -> None:
        """Publish what is not urgent."""


class Fatal(PoliError):
    """Ends the node."""


class Newest:
    """Holds one cloud. A newer one replaces it; replaced clouds are counted as dropped."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: tuple[Any, float] | None = None
        self.heard = self.dropped = 0

    def put(self, cloud: Any) -> None:
        with self._changed:
            self.heard += 1
            self.dropped += self._held is not None
            self._held = cloud, time.perf_counter()
            self._changed.notify()

    def take(self, seconds: float) -> tuple[Any, float] | None:
        """Return the cloud and when it arrived, or None if none arrives in time."""
        with self._changed:
            if self._held is None:
                self._changed.wait(seconds)
            held, self._held = self._held, None
            return held


class Log:
    """Counts and latencies, from the arrival of a cloud to the end of its publication. `line` describes those since the last."""

    def __init__(self, clouds: Newest) -> None:
        self._clouds = clouds
        self.all: deque[float] = deque(maxlen=_KEPT)
        self.done = self.failed = 0
        self._mark = time.perf_counter(), 0, 0, 0, 0
        self._warned = -np.inf
        self._unsaid = 0

    def line(self) -> str:
        now, (since, heard, dropped, done, failed) = time.perf_counter(), self._mark
        self._mark = now, self._clouds.heard, self._clouds.dropped, self.done, self.failed
        if self._clouds.heard == heard:
            return ""
        return _told(
            self._clouds.heard - heard, self.done - done, self._clouds.dropped - dropped, self.failed - failed,
            [*self.all][len(self.all) - min(self.done - done, len(self.all)) :], now - since,
        )  # fmt: skip

    def summary(self) -> str:
        return _told(self._clouds.heard, self.done, self._clouds.dropped, self.failed, [*self.all], None)

    def warning(self, text: str) -> str:
        """Return the warning if it is time for one, else an empty string."""
        if time.perf_counter() - self._warned < _WARN_EVERY:
            self._unsaid += 1
            return ""
        self._warned, unsaid, self._unsaid = time.perf_counter(), self._unsaid, 0
        return f"{text} ({unsaid} more warnings were not shown)" if unsaid else text


def _told(heard: int, done: int, dropped: int, failed: int, latencies: list[float], seconds: float | None) -> str:
    parts = [f"{heard} clouds in, {done} out, {dropped} dropped"]
    if failed:
        parts.append(f"{failed} failed")
    if seconds:
        parts.append(f"{done / seconds:.1f} Hz")
    if latencies:
        median, high = 1e3 * np.quantile(latencies, [0.5, 0.99])
        parts.append(f"latency median {median:.0f} ms, 99 % {high:.0f} ms")
    return ", ".join(parts)


def serve(transport: Transport, make_job: Callable[[], Job], source: str, log_every: float = 10.0) -> Log:
    """Process clouds until Ctrl-C (SIGINT), SIGTERM or the end of ROS. Raises a PoliError if ROS was lost or the job gave up."""
    clouds = Newest()
    log = Log(clouds)
    try:
        job = make_job()
        transport.parameters(job.parameters(), job.change)
        job.warm_up()
        with _stop_requests() as stop:
            transport.subscribe(CLOUD, source, clouds.put)
            transport.say(f"{job.name}: listening to {source}")
            last = time.perf_counter()
            while not stop.is_set() and not transport.ended():
                held = clouds.take(_WAIT)
                if held is not None:
                    _process(transport, job, log, *held)
                if log_every and time.perf_counter() - last >= log_every:
                    last = time.perf_counter()
                    transport.say(f"{job.name}: {log.line() or f'no clouds on {source} since the last line'}")
            lost = "" if stop.is_set() else transport.lost()
        transport.say(f"{job.name}: ending after {log.summary()}")
    finally:
        transport.close()
    if lost:
        raise PoliError(f"poli node {job.name} ended: {lost}")
    return log


def _process(transport: Transport, job: Job, log: Log, cloud: Any, arrived: float) -> None:
    try:
        warning = job.process(cloud)
        log.done += 1
        log.all.append(time.perf_counter() - arrived)
    except Fatal:
        raise
    except PoliError as error:
        warning = f"skipped: {error}"
        log.failed += 1
    if warning and (said := log.warning(printable(warning))):
        transport.warn(f"{job.name}: {said}")
    job.after()


@contextmanager
def _stop_requests() -> Iterator[threading.Event]:
    """End between two clouds on SIGINT and SIGTERM; a second signal ends at once."""
    stop = threading.Event()

    def request(number: int, _: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    try:
        before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # only the main thread can handle signals
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
