"""Memory of odometry over thousands of simulated scans, without and with the map of the drive.

Each variant runs in a process of its own, over the same drive along a street that never returns.
Example: python -m benchmarks odometry_memory --scans 100,500,1000,2000,5000
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.long_street import long_street
from benchmarks.fresh_process import resident_mb
from benchmarks.options import MODEL, option
from benchmarks.report import Column, Report, Table
from poli.data.simulate import Ride, World
from poli.data.simulate.drive import Drive
from poli.data.simulate.sensor import find_sensor
from poli.errors import PoliError
from poli.tasks.odometry import DriveMap, Odometer, OdometryConfig

_ROOT = Path(__file__).parents[2]
_CHILD = "import sys; from benchmarks.experiments.odometry_memory import print_memory; print_memory(sys.argv[1])"
_NO_MAP = "no map"


@dataclass(frozen=True)
class Options:
    scans: tuple[int, ...] = option((100, 500, 1000, 2000, 5000), "numbers of scans after which memory is read")
    maps: tuple[str, ...] = option((_NO_MAP, "points"), "kinds of map to write: no map, points, ellipsoids")
    sensor: str = option("vlp16", "name of a sensor, or a file of beams")
    model: str = option("lidar", MODEL)


_TABLE = Table(
    [Column("map", "{map}"), Column("scans", "{scans}"), Column("path m", "{path:.0f}")],
    [
        Column("memory MB", "{memory:.0f}"),
        Column("peak MB", "{peak:.0f}"),
        Column("cells of the odometer's map", "{cells}"),
        Column("cells of the drive's map on disk", "{on_disk}"),
        Column("error at the end m", "{error:.2f}"),
    ],
)


def run(options: Options) -> Iterator[Report]:
    records = [record for kind in options.maps for record in _measure(options, kind)]
    last = {record["map"]: record for record in records}
    written = [f"{kind}: {r['written']:,}, {r['file_mb']:.0f} MB" for kind, r in last.items() if r["written"]]
    notes = [
        f"one drive along a simulated street at 8 m/s, {options.sensor}, default options; every scan is new ground",
        "memory: resident memory of the process after that many scans; peak: the highest so far; the last rows also write the file",
        "the process holds Python, numba's compiled code, the model and the simulated world from the beginning",
        *(["the files: " + "; ".join(written)] if written else []),
    ]
    summary: dict[str, Any] = {}
    for kind in options.maps:
        own = [record for record in records if record["map"] == kind and record["scans"] >= 0.2 * max(options.scans)]
        summary[f"growth_{kind.replace(' ', '_')}"] = own[-1]["memory"] - own[0]["memory"]  # MB over the last four fifths
    yield Report("odometry_memory", "Memory of odometry by number of scans", records, _TABLE, notes, summary)


def _measure(options: Options, kind: str) -> list[dict[str, Any]]:
    asked = {"scans": sorted(options.scans), "map": kind, "sensor": options.sensor, "model": options.model}
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))  # to find `benchmarks`
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, json.dumps(asked)], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise PoliError(f"the drive with {kind} failed: {reason}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def print_memory(asked: str) -> None:
    """Print one record per number of scans; runs in the fresh process."""
    options = json.loads(asked)
    counts, kind = options["scans"], options["map"]
    ride, sensor = Ride(), find_sensor(options["sensor"])
    length = ride.speed * (counts[-1] + 10) / sensor.rate
    drive = Drive(World(long_street(length)), sensor, ride, counts[-1], movers=False)
    truth = np.linalg.inv(drive.poses[0]) @ drive.poses
    odometer, begin = Odometer(OdometryConfig(model=options["model"])), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        drive_map = None if kind == _NO_MAP else DriveMap(Path(folder) / "map.ply", odometer, kind)
        with drive_map or nullcontext():
            for number, scan in enumerate(drive, 1):
                odometer.add(scan)
                if drive_map is not None:
                    drive_map.add(scan)
                if number not in counts:
                    continue
                record: dict[str, Any] = {"written": 0, "seconds": 0.0, "file_mb": 0.0}
                record |= {"map": kind, "scans": number, "on_disk": 0 if drive_map is None else drive_map.on_disk}
                if drive_map is not None and number == counts[-1]:
                    start = time.perf_counter()
                    drive_map.close()
                    assert drive_map.written is not None
                    size = drive_map.path.stat().st_size
                    record |= {
                        "written": drive_map.written.count, "seconds": time.perf_counter() - start, "file_mb": 1e-6 * size
                    }  # fmt: skip
                gc.collect()
                record |= {"memory": resident_mb("VmRSS"), "peak": resident_mb("VmHWM")}
                record |= {
                    "cells": 0 if odometer.map is None else len(odometer.map),
                    "minutes": (time.perf_counter() - begin) / 60.0,
                }
                poses = odometer.poses
                record["path"] = float(np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1).sum())
                record["error"] = float(np.linalg.norm(poses[-1, :3, 3] - truth[number - 1, :3, 3]))
                print(json.dumps(record), flush=True)
