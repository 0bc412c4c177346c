"""Time of odometry per scan on real sequences, against KISS-ICP in the same run.

Neither deskews: scans have no point times. With POLI_NUM_THREADS=1, for one thread.

Example: python -m benchmarks odometry_time --real sequences
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.drives import SYSTEM_SEQUENCES, RealDrive
from benchmarks.options import MODEL, REAL, option
from benchmarks.report import Report, Table, column_list
from benchmarks.rivals.odometry import run_kiss
from benchmarks.rivals.odometry_contestants import Outcome, run_ours
from benchmarks.rivals.tracks import Track, without_times
from benchmarks.timing import same_threads
from poli.errors import InputError
from poli.lidar_odometry import Odometer, OdometryConfig
from poli.scan import Scan

MODELS = ("lidar",)

_TURNS = 2  # contestants alternate, so that slow phases of the machine affect both
_UNCOUNTED = 5  # scans at the start of a drive
_STAGES = ("prepare", "estimate", "align", "map")


@dataclass(frozen=True)
class Options:
    real: Path = option(MISSING, REAL)
    model: str = option("lidar", MODEL)
    sequences: tuple[str, ...] = option(("kitti_raw_0009", "nuscenes_0006"), "names, separated by commas")
    scans: int = option(80, "scans of each, at most", least=_UNCOUNTED + 1)


_TABLE = Table(
    column_list(sequence="{sequence}"),
    column_list(
        points="{points:.0f}", POLI_ms="{ms:.1f}", KISS_ICP_ms="{kiss_icp_ms:.1f}", ratio="{ratio:.2f}",
        **{stage: f"{{{stage}_ms:.1f}}" for stage in _STAGES},
    ),
)  # fmt: skip


def run(options: Options) -> Iterator[Report]:
    chosen = [real for real in SYSTEM_SEQUENCES if real.sequence in options.sequences]
    if missing := set(options.sequences) - {real.sequence for real in chosen}:
        known = ", ".join(dict.fromkeys(real.sequence for real in SYSTEM_SEQUENCES))
        raise InputError(f"sequences: unknown {', '.join(sorted(missing))}; choose from {known}")
    with same_threads() as threads:
        records = [_measure(RealDrive(options.real, real), options) for real in chosen]
    used = "1 thread" if threads == 1 else f"{threads} threads"
    notes = [
        f"median milliseconds per scan of the first {options.scans}, from raw points to pose, {used} for both; two runs each, in "
        f"turns; the first {_UNCOUNTED} scans do not count",
        "no point times, so neither system deskews; both have their defaults",
        "points: median number after downsampling; prepare to map: stages of POLI, the update of the map partly in the background",
    ]
    name = "odometry_time" if threads > 1 else "odometry_time_one_thread"
    yield Report(name, f"Time of odometry per scan, {used}", records, _TABLE, notes)


def _measure(source: RealDrive, options: Options) -> dict[str, Any]:
    drive = source.open().first(options.scans)
    scans = without_times(drive.recorded)
    config = OdometryConfig(model=options.model, on_loss="restart")
    contestants: dict[str, Callable[[list[Scan]], Outcome | Track]] = {
        "ms": partial(run_ours, config=config), "kiss_icp_ms": run_kiss,
    }  # fmt: skip
    seconds: dict[str, list[np.ndarray]] = {name: [] for name in contestants}
    for _ in range(_TURNS):
        for name, system in contestants.items():
            seconds[name].append(system(scans).seconds[_UNCOUNTED:])
    record: dict[str, Any] = {name: 1e3 * float(np.median(np.concatenate(those))) for name, those in seconds.items()}
    odometer = Odometer(config)
    steps = [odometer.add(scan) for scan in scans][_UNCOUNTED:]
    stages = {f"{stage}_ms": 1e3 * float(np.median([step.seconds.get(stage, 0.0) for step in steps])) for stage in _STAGES}
    points = float(np.median([step.points for step in steps]))
    return {"sequence": drive.name, **record, "ratio": record["ms"] / record["kiss_icp_ms"], "points": points, **stages}
