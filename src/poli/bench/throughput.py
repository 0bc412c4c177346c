"""`poli bench throughput`: how many scans a second `poli densify` does, by who does the work."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from poli.bench.report import Report, publish
from poli.bench.throughput_inputs import Scans, recorded, simulated, write_bins, write_mcap
from poli.errors import MissingExtra
from poli.tasks.densify import DensifyConfig, densify
from poli.tasks.densify.bags import densify_bag, look_into_bag
from poli.tasks.densify.engines import Engine, engine
from poli.tasks.densify.tally import Tally
from poli.tasks.densify.trees import densify_tree, plan_tree
from poli.threads import thread_count

ONE_THREAD, ONE_WORKER, PROCESSES, CLUSTER = "one worker, one thread", "one worker, all threads", "processes", "dask cluster"
_INPUTS = {"folder": ".bin files", "bag": "mcap bag"}


@dataclass(frozen=True)
class ThroughputBench:
    config: DensifyConfig
    sensor: str = "vlp16"
    place: str = "town"
    scans: int = 240
    drives: Path = Path("runs/throughput_drives")  # where simulated drives are kept
    data: Path | None = None  # scans to take instead of simulated ones
    workers: int = 2  # processes, and workers of the cluster, of one thread each
    repeats: int = 3

    def read(self) -> Scans:
        if self.data is not None:
            return recorded(self.data, self.scans)
        return simulated(self.sensor, self.place, self.scans, self.drives)

    def contestants(self) -> dict[str, tuple[int, Callable[[], AbstractContextManager[Engine]]]]:
        """By name: how many workers, and what starts them."""
        return {
            ONE_THREAD: (1, _one_thread),
            ONE_WORKER: (1, engine),
            PROCESSES: (self.workers, partial(engine, self.workers)),
            CLUSTER: (self.workers, partial(_local_cluster, self.workers)),
        }


@dataclass
class _Measured:
    """Of one contestant, a value a turn."""

    start: list[float] = field(default_factory=list)  # seconds until every worker has densified a scan
    rates: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _INPUTS})  # scans a second

    def rate(self, name: str) -> float:
        return statistics.median(self.rates[name])


def run(bench: ThroughputBench, out: Path, json_path: Path | None, command: str) -> None:
    scans = bench.read()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        inputs = {"folder": write_bins(scans.clouds, place / "bins"), "bag": write_mcap(scans.clouds, place / "bag")}
        measured, tally = _measure(bench, scans, inputs, place / "dense")
    columns = ["input", "who", "scans/s", f"x {ONE_THREAD}", f"x {ONE_WORKER}", "start s"]
    rows = [_row(bench, measured, kind, name) for kind in _INPUTS for name in measured]
    means, config = (total / tally.scans for total in (tally.points_in, tally.points_out)), bench.config
    notes = [
        "{}: {} scans of {:.0f} points, {:.0f} when densified ".format(scans.name, tally.scans, *means)
        + f"(per_point {config.per_point}, max_sigma {config.max_sigma:g}, voxel {config.voxel:g} m); xyz and intensity as float32",
        f"scans/s: medians of {bench.repeats} passes in turns (least and most), from files to files, bags in the way that can be "
        "resumed; what workers take to start does not count",
        "start: until every worker has densified a scan. One worker is this process, which has loaded everything before; on the "
        "command line, that is the start of any command",
        f"one worker with all threads ({thread_count()}) is `--workers 1`; the others are `--workers {bench.workers}` and "
        f"`--scheduler` with {bench.workers} local workers of one thread, which share the cores with the process that reads and "
        "writes, and on the cluster with its scheduler",
    ]
    units = {"": ONE_THREAD, "_all_threads": ONE_WORKER}
    figures = {
        "scans": tally.scans, "points_in": tally.points_in, "points_out": tally.points_out, "workers": bench.workers,
        "threads": thread_count(), "repeats": bench.repeats,
        "scans_per_second": {name: found.rates for name, found in measured.items()},
        "start_seconds": {name: found.start for name, found in measured.items()},
        **{
            f"ratio_{kind}_{name.replace(',', '').replace(' ', '_')}{ending}": _ratio(measured, name, kind, unit)
            for ending, unit in units.items() for kind in _INPUTS for name in measured
        },
    }  # fmt: skip
    publish(Report("Scans a second, densified", command, columns, rows, notes, figures), "throughput", out, json_path)


def _measure(bench: ThroughputBench, scans: Scans, inputs: dict[str, Path], dense: Path) -> tuple[dict[str, _Measured], Tally]:
    """In turns, so that a slow moment of the machine hits them all; workers run only while they are measured."""
    measured = {name: _Measured() for name in bench.contestants()}
    densify(scans.clouds[0], bench.config)  # loads the model and its kernels
    for _ in range(bench.repeats):
        for name, (workers, start) in bench.contestants().items():
            begin = time.perf_counter()
            with start() as doer:
                _warm_up(doer, workers, partial(densified_by, config=bench.config), scans.clouds[0])
                measured[name].start.append(time.perf_counter() - begin)
                for kind, source in inputs.items():
                    begin = time.perf_counter()
                    tally = _densify(kind, source, dense, bench.config, doer)
                    measured[name].rates[kind].append(tally.scans / (time.perf_counter() - begin))
                    shutil.rmtree(dense)
    return measured, tally


def _densify(kind: str, source: Path, out: Path, config: DensifyConfig, doer: Engine) -> Tally:
    if kind == "bag":
        *_, tally = densify_bag(look_into_bag(source, out), out, config, doer)
    else:
        *_, tally = densify_tree(plan_tree(source, out, "folder"), source, out, config, doer)
    return tally


def _warm_up(doer: Engine, workers: int, work: Callable[[np.ndarray], int], cloud: np.ndarray) -> None:
    """Until every worker has had a scan: the first ones to be ready may take several."""
    seen: set[int] = set()
    while len(seen) < workers:
        promises = [doer.submit(work, cloud) for _ in range(doer.window)]
        seen |= {promise.result() for promise in promises}


def densified_by(points: np.ndarray, config: DensifyConfig) -> int:
    """Which process did it."""
    densify(points, config)
    return os.getpid()


@contextmanager
def _one_thread() -> Iterator[Engine]:
    before = os.environ.get("POLI_NUM_THREADS")
    os.environ["POLI_NUM_THREADS"] = "1"
    try:
        with engine() as here:
            yield here
    finally:
        if before is None:
            del os.environ["POLI_NUM_THREADS"]
        else:
            os.environ["POLI_NUM_THREADS"] = before


@contextmanager
def _local_cluster(workers: int) -> Iterator[Engine]:
    try:
        from distributed import LocalCluster
    except ImportError:
        raise MissingExtra("working on a cluster", "cluster") from None
    local = {"dashboard_address": None, "host": "127.0.0.1"}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, **local) as cluster,
        engine(scheduler=cluster.scheduler_address) as found,
    ):
        yield found


# --- the table


def _row(bench: ThroughputBench, measured: dict[str, _Measured], kind: str, name: str) -> list[str]:
    titles = {PROCESSES: f"{bench.workers} processes", CLUSTER: f"dask cluster of {bench.workers} workers"}
    found, rates = measured[name], measured[name].rates[kind]
    speed = f"{found.rate(kind):.1f} ({min(rates):.1f} to {max(rates):.1f})"
    ratios = [f"{_ratio(measured, name, kind, unit):.2f}" for unit in (ONE_THREAD, ONE_WORKER)]
    return [_INPUTS[kind], titles.get(name, name), speed, *ratios, f"{statistics.median(found.start):.1f}"]


def _ratio(measured: dict[str, _Measured], name: str, kind: str, unit: str) -> float:
    return measured[name].rate(kind) / measured[unit].rate(kind)
