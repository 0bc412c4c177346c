"""Fig. 6: registration of the Stanford Dragon and Happy Buddha, by the experiment `objects`, with 100 pairs of clouds each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.experiments import objects
from benchmarks.experiments.paper import model_for
from benchmarks.experiments.paper.reused import in_paper, stanford
from benchmarks.report import Report

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options


def run(options: Options) -> Iterator[Report]:
    chosen = objects.Options(
        mesh=stanford(options), models=options.models or (model_for(options, "objects"),), seed=options.seed, runs=options.runs
    )
    if options.pairs:
        chosen = replace(chosen, pairs=options.pairs)
    if options.sizes:
        chosen = replace(chosen, sizes=options.sizes, normal_sizes=options.sizes)
    for report in objects.run(chosen):
        yield in_paper(report)
