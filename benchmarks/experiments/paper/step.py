"""Fig. 5: parts of a training step for a scan of about 16,000 points, by the experiment `step`; here on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.experiments import step
from benchmarks.experiments.paper.numbers import STEP_MS
from benchmarks.experiments.paper.reused import in_paper
from benchmarks.report import Report

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options


def run(options: Options) -> Iterator[Report]:
    chosen = step.Options(repeats=options.repeats)
    if options.sizes:
        chosen = replace(chosen, points=options.sizes[0], scan_points=options.sizes[-1])
    for report in step.run(chosen):
        (ours,) = [r["ms"] for r in report.records if (r["data"], r["part"]) == ("scans", "step: all of it")]
        beside = f"here {ours:.1f} ms for {chosen.scan_points}"
        note = f"the paper: {STEP_MS:g} ms for about 16,000 points on a GPU, {beside}; its parts are a plot"
        yield in_paper(report, note)
