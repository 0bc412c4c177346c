"""Progress of long commands without a terminal: a line on stderr now and then, for log files and batch systems."""

import sys
import time
from typing import Any

from rich.progress import Progress, Task, TaskID

from poli.cli.output import progress_columns, progress_streams, say, silenced

PERIOD = 30.0  # seconds between lines; what ends sooner needs none


class ProgressLines(Progress):
    """Bars on a terminal. Elsewhere, unless `--quiet`, a line at most every `PERIOD` seconds.

    A line follows an update of a task, so it comes later if a step takes longer than the period.
    """

    def __init__(self, title: str) -> None:
        super().__init__(*progress_columns(), **progress_streams())
        self._title = title
        self._lines = not sys.stderr.isatty() and not silenced()
        self._last = time.monotonic()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        if self._lines and time.monotonic() - self._last >= PERIOD:
            self._last = time.monotonic()
            say(line(self._title, self._tasks[task_id]), to_stderr=True)


def line(title: str, task: Task) -> str:
    """Return the progress of a task in one line: count, share, time, time left if known, and its description."""
    count = f"{task.completed:.0f}/{task.total:.0f} ({task.percentage:.0f} %)" if task.total else f"{task.completed:.0f}"
    times = [] if task.elapsed is None else [f"{duration(task.elapsed)} elapsed"]
    if task.time_remaining is not None and not task.finished:
        times.append(f"about {duration(task.time_remaining)} left")
    return ", ".join(filter(None, [f"{title}: {count}", *times, task.description if task.description != title else ""]))


def duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {left} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
