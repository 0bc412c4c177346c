"""Fig. SE2: T-Q-C and T-T-Q-C trained under noisy poses, by the experiment `noise`, judged by normals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.experiments import noise
from benchmarks.experiments.paper.reused import in_paper, stanford
from benchmarks.report import Report

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options


def run(options: Options) -> Iterator[Report]:
    for report in noise.run(noise.Options(mesh=stanford(options), runs=options.runs / "noise", steps=options.steps)):
        note = "the paper, in words: no difference with exact poses, and T-T-Q-C better with noise, by the success of registration"
        yield in_paper(report, note)
