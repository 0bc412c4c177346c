"""Terminal output of `poli odometry`, and handling of stop signals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from poli.cli.output import say

if TYPE_CHECKING:
    from poli.data.datasets import Dataset
    from poli.tasks.odometry import MapFile, Step
    from poli.tasks.odometry.summary import Summary

_LISTED = 5  # scans listed on the terminal; the files list all
_ROW = "{:<29} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8}"


class StopRequests:
    signal: int | None = None


@contextmanager
def stop_requests() -> "Iterator[StopRequests]":
    """Handle SIGINT and SIGTERM between scans, so that no scan is half written; a second signal stops at once."""
    import os
    import signal

    stop = StopRequests()

    def request(number: int, _: object) -> None:
        if stop.signal:
            raise KeyboardInterrupt
        stop.signal = number
        os.write(2, b"\nstopping after this scan; again to stop at once\n")  # async-signal-safe

    try:
        before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # only the main thread can handle signals
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress(name: str, total: int) -> "Iterator[Callable[[Step], None]]":
    import time
    from collections import Counter, deque

    from poli.cli import output
    from poli.tasks.odometry.summary import SIMPLY_TRACKED

    with output.progress() as bar:
        task = bar.add_task(name, total=total)
        recent, others = deque([time.perf_counter()], maxlen=20), Counter[str]()

        def show(step: "Step") -> None:
            recent.append(time.perf_counter())
            if step.status not in SIMPLY_TRACKED:
                others[step.status.value] += 1
            rate = (len(recent) - 1) / max(recent[-1] - recent[0], 1e-9)
            bar.update(task, advance=1, description=", ".join([f"{rate:.1f} scans/s", *(f"{n} {s}" for s, n in others.items())]))

        yield show


def print_summary(summary: "Summary", opened: "Dataset") -> None:
    for skip in opened.skipped[:_LISTED]:
        say(f"warning: skipped in the data: {skip.what}: {skip.why}", warning=True)
    _more(len(opened.skipped), "config.json")
    for odd in summary.not_tracked[:_LISTED]:
        say(f"warning: scan {odd.scan} {odd.status}: {odd.note}", warning=True)
    _more(len(summary.not_tracked), "summary.json")
    if not summary.scans_done:
        return
    rate = f"{summary.scans_per_second:.1f}" if summary.scans_per_second else "-"
    stages = ", ".join(f"{name} {1e3 * t.median:.0f}" for name, t in summary.seconds.items())
    counts = ", ".join(f"{count} {status}" for status, count in summary.statuses.items())
    say(f"{opened.name}: {summary.scans_done} of {summary.scans_asked} scans, path {summary.path_length:.1f} m")
    say(f"status: {counts}")
    say(f"time: {rate} scans/s; median ms per scan: {stages}; voxel {summary.voxel:.2g} m")
    say(summary.deskewing)
    if summary.without_stamp:
        say(f"{summary.without_stamp} scans have no stamp; assumed {summary.period:g} s between scans (--period)")
    if summary.evaluation is None:
        return
    say(f"{'translation':>53}{'rotation':>27}")  # above the columns of `_ROW`
    say(_ROW.format("against ground truth", "count", "RMSE", "mean", "max", "RMSE", "mean"))
    for name, measure in summary.evaluation.items():
        if not measure.count:
            continue
        title = f"{measure.title} ({', '.join(measure.units)})"
        moves = [f"{s['translation']:.4f}" for s in (measure.rmse, measure.mean, measure.max)]
        turns = [f"{s['rotation']:.4f}" for s in (measure.rmse, measure.mean)]
        if name == "ape_umeyama":  # fits only positions: the rotation is undefined on a straight path
            turns = ["-", "-"]
        say(_ROW.format(title, measure.count, *moves, *turns))
    for measure in summary.evaluation.values():
        if measure.none_because:
            say(f"{measure.title}: none, {measure.none_because}")


def _more(count: int, file: str) -> None:
    if count > _LISTED:
        say(f"warning: and {count - _LISTED} more ({count} in total; see {file})", warning=True)


def draw(folder: Path, written: "MapFile | None") -> None:
    import shlex

    from poli.show.trajectory_plot import draw_trajectory

    draw_trajectory(folder)
    say(f"{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    if written is not None:
        size = written.path.stat().st_size / 1e6
        say(f"{written.path}: {written.count:,} {written.kind}, one per voxel of {written.voxel:g} m, {size:.1f} MB")
    say(f"view it: poli view {shlex.quote(str(folder))}")
