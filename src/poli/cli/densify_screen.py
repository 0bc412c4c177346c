"""Terminal output of `poli densify`: progress and summary."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from poli.cli.output import say

if TYPE_CHECKING:
    from poli.scan import Scan
    from poli.tasks.densify.report import Tally


@contextmanager
def progress(name: str, total: int) -> "Iterator[Callable[[Tally], None]]":
    from poli.cli import output

    with output.progress() as bar:
        task = bar.add_task(name, total=total)
        yield lambda tally: bar.update(task, completed=tally.scans)


def say_worth(read: "Callable[[], Scan]") -> str:
    """Print a hint if denser scans are unlikely to pay for a sensor and place like this, and return it."""
    from contextlib import suppress

    from poli.errors import PoliError
    from poli.tasks.densify.worth import why_little

    hint = ""
    with suppress(PoliError, OSError):  # the result is complete; bags with odd stamps, for example, are densified but not read
        if hint := why_little(read()):
            say(f"hint: {hint}")
    return hint


def print_summary(out: Path, tally: "Tally", total: int, seconds: float) -> None:
    before = f", {tally.kept} already done" if tally.kept else ""
    say(f"{out}: {tally.scans} of {total} scans{before}")
    if tally.points_in:
        grown = tally.points_out / tally.points_in
        say(f"points: {tally.points_in} in, {tally.points_out} out, {grown:.2f} times the points")
    if tally.unchanged:
        import warnings

        warnings.warn(f"{tally.unchanged} of {total} scans are unchanged. The first: {tally.why}", stacklevel=2)
    if tally.scans > tally.kept:
        say(f"time: {seconds:.1f} s, {(tally.scans - tally.kept) / max(seconds, 1e-9):.1f} scans/s")
