"""Other experiments as parts of the paper's: their reports under other names, and their data from the folders of the options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.experiments.paper import LAYOUTS
from benchmarks.report import Report
from poli.errors import InputError

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

TESTED = ("dragon", "happy_buddha")  # the objects that the paper does not train on


def in_paper(report: Report, *notes: str) -> Report:
    """The report of another experiment, below the given notes."""
    plots = {f"paper_{name}": plot for name, plot in report.plots.items()}
    return replace(report, name=f"paper_{report.name}", notes=[*notes, *report.notes], plots=plots)


def stanford(options: Options) -> tuple[Path, ...]:
    """The meshes of the objects that the paper tests on."""
    assert options.stanford is not None
    found = [options.stanford / "test" / f"{name}.ply" for name in TESTED]
    lost = [path for path in found if not path.is_file()]
    if lost:
        raise InputError(f"{lost[0]}: no such file; {options.stanford} should hold {LAYOUTS['stanford']}")
    return tuple(found)
