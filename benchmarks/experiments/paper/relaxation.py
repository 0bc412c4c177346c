"""Fig. SC1: the effect of leaving the prior out of the inner problem, by the experiment `relaxation`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.experiments import relaxation
from benchmarks.experiments.paper.reused import in_paper
from benchmarks.report import Report

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options


def run(options: Options) -> Iterator[Report]:
    chosen = relaxation.Options(runs=options.runs / "relaxation")
    for report in relaxation.run(replace(chosen, steps=options.steps) if options.steps else chosen):
        note = (
            "the paper, in words: relaxed and exact end far apart in scenario A and together in B, and both losses fall in training"
        )
        yield in_paper(report, note)
