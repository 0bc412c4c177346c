"""Table III: global registration by the number of beams, with one model for all.

The pairs, the registrars and the limits are those of Table II.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.experiments.paper.numbers import TABLE3
from benchmarks.experiments.paper.sequences import sources
from benchmarks.experiments.paper.table2 import CELL, INDEX, OURS, PAPER, Job, measured, report
from benchmarks.report import NONE, Column, Record, Report, Table
from benchmarks.rivals.denser_scans import RAW

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

BEAMS, WAYS = (16, 32, 64), (RAW, PAPER, OURS)


def run(options: Options) -> Iterator[Report]:
    beams = (options.beams,) if options.beams else BEAMS
    every = [source for kept in beams for source in sources(options, beams=kept, datasets=("kitti",))]
    records = measured(options, [Job(source, way) for source in every for way in WAYS])
    for record in records:
        record["group"] = f"{record['beams']} beams"
    known = {(f"{kept} beams", system): values for (kept, system), values in TABLE3.items()}
    gains = [(f"gain, {way.removeprefix('+ POLI, ')}", partial(_gain, way)) for way in WAYS[1:]]
    table = Table([Column("KITTI", "{group}"), *INDEX], across="way", cell=CELL, highest="success", order=WAYS, then=gains)
    yield report(
        options, "paper_table3", "Table III of the paper: registration by beams, success in percent", records, table, known
    )


def _gain(way: str, by: dict[Any, Record]) -> str:
    """Relative to raw scans, as in the paper."""
    if way not in by or not by[RAW]["success"]:
        return NONE
    return f"{100.0 * (by[way]['success'] / by[RAW]['success'] - 1.0):+.1f} %"
