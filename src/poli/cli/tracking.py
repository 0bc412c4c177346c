"""Odometry of recordings that are used for training: `learn` and `tasks` do not import each other, so it is done here."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poli.data.datasets import Dataset
    from poli.learn.scan_config import ScanConfig
    from poli.learn.tracked_log import TrackedLog
    from poli.scan import Scan
    from poli.tasks.odometry import OdometryConfig, Step


def tracker(config: "ScanConfig", show: Callable[[str, int, int], None]) -> "Callable[[str], TrackedLog]":
    """Return a function that runs odometry on the dataset at a path; `show` receives its name, the scans done, and their number."""
    from poli.data.datasets import dataset
    from poli.tasks.odometry import OdometryConfig

    def run(path: str) -> "TrackedLog":
        opened = dataset("auto", path)

        def counted(rows: range, name: str) -> Iterator[int]:
            for row in rows:
                yield row
                show(name, row + 1, len(rows))

        return track(opened, OdometryConfig(min_range=config.min_range, on_loss="restart"), counting=counted)

    return run


def with_progress(rows: range, name: str) -> Iterator[int]:
    """Iterate with a progress bar, or lines without a terminal."""
    from poli.cli.progress_lines import ProgressLines

    with ProgressLines(name) as bar:
        yield from bar.track(rows, description=name)


def track(
    opened: "Dataset",
    config: "OdometryConfig",
    max_scans: int | None = None,
    counting: Callable[[range, str], Iterator[int]] = with_progress,
) -> "TrackedLog":
    """Run odometry over a dataset, by default with a progress bar; return the scans and their estimated poses."""
    from poli.learn.tracked_log import TrackedLog
    from poli.tasks.odometry import Odometer

    odometer = Odometer(config)
    count = len(opened) if max_scans is None else min(len(opened), max_scans)
    for number in counting(range(count), f"odometry of {opened.name}"):
        odometer.add(opened[number])
    return TrackedLog.of(opened.name, Returns(opened, odometer.steps, config.min_range, config.max_range), odometer.steps)


class Returns(Sequence["Scan"]):
    """The scans of a dataset, read on access, cropped to the ranges that odometry uses, and deskewed as odometry did."""

    def __init__(self, opened: "Dataset", steps: "Sequence[Step]", min_range: float, max_range: float) -> None:
        self._opened, self._steps, self._min_range, self._max_range = opened, steps, min_range, max_range

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, row):
        import numpy as np

        from poli.tasks.deskewing import deskew

        scan, velocity = self._opened[row].clean(), self._steps[row].velocity
        distance = np.linalg.norm(scan.points.astype(np.float64), axis=1)
        scan = scan.select((distance >= self._min_range) & (distance <= self._max_range))
        return scan if velocity is None else deskew(scan, velocity)
