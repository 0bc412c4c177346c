"""Scans per second of `poli densify` on files and on a bag: one worker, processes, and a local dask cluster.

Needs the extras `ros` and `cluster`.
Example: python -m benchmarks throughput --json throughput.json
"""

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
from typing import Any

import numpy as np

from benchmarks.data.densify_inputs import Scans, recorded, simulated, write_bins, write_mcap
from benchmarks.options import DRIVES, MODEL, option
from benchmarks.report import Column, Report, Table
from poli.errors import MissingExtra
from poli.tasks.densify import DensifyConfig, densify
from poli.tasks.densify.bags import densify_bag, look_into_bag
from poli.tasks.densify.engines import Engine, engine
from poli.tasks.densify.report import Tally
from poli.tasks.densify.trees import densify_tree, plan_tree
from poli.threads import thread_count

ONE_THREAD, ONE_WORKER, PROCESSES, CLUSTER = "one worker, one thread", "one worker, all threads", "processes", "dask cluster"
_INPUTS = {"folder": ".bin files", "bag": "mcap bag"}


@dataclass(frozen=True)
class Options:
    model: str = option("lidar", MODEL)
    scans: int = option(240, "maximum number of scans", least=1)
    place: str = option("town", "held-out place to drive through")
    sensor: str = option("vlp16", "name of a sensor, or a file of beams")
    drives: Path = option(Path("runs/throughput_drives"), DRIVES)
    data: Path | None = option(None, "scans to use instead: a folder, a sequence or a bag")
    workers: int = option(2, "number of processes, and of cluster workers, with one thread each", least=1)
    repeats: int = option(3, "passes of each; the median is reported", least=1)

    @property
    def config(self) -> DensifyConfig:
        return DensifyConfig(model=self.model)

    def read(self) -> Scans:
        if self.data is not None:
            return recorded(self.data, self.scans)
        return simulated(self.sensor, self.place, self.scans, self.drives)

    def contestants(self) -> dict[str, tuple[int, Callable[[], AbstractContextManager[Engine]]]]:
        """By name: the number of workers, and a function that starts them."""
        return {
            ONE_THREAD: (1, _one_thread),
            ONE_WORKER: (1, engine),
            PROCESSES: (self.workers, partial(engine, self.workers)),
            CLUSTER: (self.workers, partial(_local_cluster, self.workers)),
        }


@dataclass
class _Measured:
    """Measurements of one contestant, one value per turn."""

    start: list[float] = field(default_factory=list)  # seconds until every worker has densified a scan
    rates: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _INPUTS})  # scans per second

    def rate(self, name: str) -> float:
        return statistics.median(self.rates[name])


_TABLE = Table(
    [Column("input", "{input}"), Column("who", "{who}")],
    [
        Column("scans/s", "{rate:.1f} ({least:.1f} to {most:.1f})"),
        Column(f"x {ONE_THREAD}", "{to_one_thread:.2f}"),
        Column(f"x {ONE_WORKER}", "{to_all_threads:.2f}"),
        Column("start s", "{start_s:.1f}"),
    ],
)


def run(options: Options) -> Iterator[Report]:
    scans = options.read()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        inputs = {"folder": write_bins(scans.clouds, place / "bins"), "bag": write_mcap(scans.clouds, place / "bag")}
        measured, tally = _measure(options, scans, inputs, place / "dense")
    records = [_record(options, measured, kind, name) for kind in _INPUTS for name in measured]
    means, config = (total / tally.scans for total in (tally.points_in, tally.points_out)), options.config
    notes = [
        "{}: {} scans of {:.0f} points, {:.0f} when densified ".format(scans.name, tally.scans, *means)
        + f"(max_error {config.max_error:g} m, voxel {config.voxel:g} m); xyz and intensity as float32",
        f"scans/s: medians of {options.repeats} passes in turns (minimum to maximum), from files to files, with resume "
        "enabled for bags; the start of workers does not count",
        "start: time until each worker has densified a scan. One worker is this process, which is already loaded; on the command "
        "line, this is the start of any command",
        f"one worker with all threads ({thread_count()}) is `--workers 1`; the others are `--workers {options.workers}` and "
        f"`--scheduler` with {options.workers} local workers of one thread, which share the cores with the process that reads and "
        "writes, and on the cluster with its scheduler",
    ]
    summary: dict[str, Any] = {"scans": tally.scans, "points_in": tally.points_in, "points_out": tally.points_out}
    summary |= {"workers": options.workers, "threads": thread_count(), "repeats": options.repeats}
    for r in records:
        key = f"ratio_{r['kind']}_{r['method'].replace(',', '').replace(' ', '_')}"
        summary |= {key: r["to_one_thread"], f"{key}_all_threads": r["to_all_threads"]}
    yield Report("throughput", "Densified scans per second", records, _TABLE, notes, summary)


def _measure(options: Options, scans: Scans, inputs: dict[str, Path], dense: Path) -> tuple[dict[str, _Measured], Tally]:
    """Measure in turns, so that slow phases of the machine affect all; workers run only while they are measured."""
    measured = {name: _Measured() for name in options.contestants()}
    densify(scans.clouds[0], options.config)  # loads the model and its kernels
    for _ in range(options.repeats):
        for name, (workers, start) in options.contestants().items():
            begin = time.perf_counter()
            with start() as doer:
                _warm_up(doer, workers, partial(densified_by, config=options.config), scans.clouds[0])
                measured[name].start.append(time.perf_counter() - begin)
                for kind, source in inputs.items():
                    begin = time.perf_counter()
                    tally = _densify(kind, source, dense, options.config, doer)
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
    """Submit scans until each worker has processed one; the first workers may take several."""
    seen: set[int] = set()
    while len(seen) < workers:
        promises = [doer.submit(work, cloud) for _ in range(doer.window)]
        seen |= {promise.result() for promise in promises}


def densified_by(points: np.ndarray, config: DensifyConfig) -> int:
    """Densify, and return the id of the process."""
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


def _record(options: Options, measured: dict[str, _Measured], kind: str, name: str) -> dict[str, Any]:
    titles = {PROCESSES: f"{options.workers} processes", CLUSTER: f"dask cluster of {options.workers} workers"}
    rates, rate = measured[name].rates[kind], measured[name].rate(kind)
    return {
        "input": _INPUTS[kind], "who": titles.get(name, name), "kind": kind, "method": name, "rates": rates,
        "rate": rate, "least": min(rates), "most": max(rates), "to_one_thread": rate / measured[ONE_THREAD].rate(kind),
        "to_all_threads": rate / measured[ONE_WORKER].rate(kind), "start_s": statistics.median(measured[name].start),
    }  # fmt: skip
