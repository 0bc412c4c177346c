"""Fig. SD2: time by number of points, by the experiment `runtime`; here on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.experiments import runtime
from benchmarks.experiments.paper import model_for
from benchmarks.experiments.paper.numbers import INFERENCE_MS
from benchmarks.experiments.paper.reused import in_paper
from benchmarks.report import Report

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

SIZES, STATED = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000), 10_000  # points


def run(options: Options) -> Iterator[Report]:
    chosen = runtime.Options(
        model_for(options, "runtime"), options.sizes or SIZES, options.kitti, repeats=options.repeats, first_call=False
    )
    for report in runtime.run(chosen):
        ours = [r["times_ms"]["poli"] for r in report.records if (r["points"], r["scan"]) == (STATED, "simulated")]
        beside = f", here {ours[0]:.1f} ms" if ours else ""
        note = f"the paper: {INFERENCE_MS:g} ms for {STATED} points on an RTX 4060 Ti{beside}; its other times are a plot"
        yield in_paper(report, note)
