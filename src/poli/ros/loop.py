"""The loop of the live node: take the newest cloud, process it, and log rate and latency."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from poli.errors import PoliError, printable
from poli.ros.transport import Transport
from poli.threads import stop_requests

CLOUD = "sensor_msgs/PointCloud2"
_WAIT = 0.1  # seconds: how soon a signal or the end of ROS is noticed
_WARN_EVERY = 5.0  # seconds between warnings; those in between are counted
_KEPT = 100_000  # latest latencies, for the summary


class Job:
    """What a node does with every cloud. `config` is a dataclass, and `tunable` names those of its fields that ROS can change."""

    name: str
    config: Any
    tunable: tuple[str, ...]

    def __init__(self, transport: Transport, source: str, target: str, config: Any) -> None:
        self._transport, self._source, self.config = transport, source, config
        self._out = transport.publisher(CLOUD, target)

    def parameters(self) -> dict[str, Any]:
        """Parameters that can change at runtime, with their values."""
        return {name: getattr(self.config, name) for name in self.tunable}

    def change(self, wanted: dict[str, Any]) -> None:
        """Change parameters from the next cloud on, or raise a PoliError."""
        self.config = replace(self.config, **wanted)

    def warm_up(self) -> None:
        """Load what the first cloud would otherwise wait for."""

    def process(self, cloud: Any) -> str:
        """Process a cloud and publish the result. Return a warning, or an empty string. A PoliError: nothing was published."""
        raise NotImplementedError

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
        """Replace the cloud."""
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
    """Counts and latencies, from the arrival of a cloud to the end of its publication."""

    def __init__(self, clouds: Newest) -> None:
        self._clouds = clouds
        self.all: deque[float] = deque(maxlen=_KEPT)
        self.done = self.failed = 0
        self._mark = time.perf_counter(), np.zeros(4, int)
        self._warned = -np.inf
        self._unsaid = 0

    def line(self) -> str:
        """Describe what happened since the last line; an empty string if nothing did."""
        (since, before), now = self._mark, time.perf_counter()
        self._mark = now, self._counts()
        new = self._mark[1] - before
        latencies = [*self.all][len(self.all) - min(int(new[1]), len(self.all)) :]
        return _described(new, latencies, now - since) if new[0] else ""

    def summary(self) -> str:
        """Describe all that happened."""
        return _described(self._counts(), [*self.all], None)

    def _counts(self) -> np.ndarray:  # (4,)
        return np.array([self._clouds.heard, self.done, self._clouds.dropped, self.failed])

    def warning(self, text: str) -> str:
        """Return the warning if it is time for one, else an empty string."""
        if time.perf_counter() - self._warned < _WARN_EVERY:
            self._unsaid += 1
            return ""
        self._warned, unsaid, self._unsaid = time.perf_counter(), self._unsaid, 0
        return f"{text} ({unsaid} more warnings were not shown)" if unsaid else text


def _described(counts: np.ndarray, latencies: list[float], seconds: float | None) -> str:
    heard, done, dropped, failed = counts.tolist()
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
        with stop_requests() as stop:
            transport.subscribe(CLOUD, source, clouds.put)
            transport.say(f"{job.name}: listening to {source}")
            last = time.perf_counter()
            while not stop.signal and not transport.ended():
                held = clouds.take(_WAIT)
                if held is not None:
                    _process(transport, job, log, *held)
                if log_every and time.perf_counter() - last >= log_every:
                    last = time.perf_counter()
                    transport.say(f"{job.name}: {log.line() or f'no clouds on {source} since the last line'}")
            lost = "" if stop.signal else transport.lost
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
