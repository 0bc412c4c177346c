"""A dataset whose scans are corrected by a calibration of the beams as they are read."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from poli.beam_calibration import BeamCalibration
from poli.data.datasets.protocol import Dataset, Skipped
from poli.scan import Scan


@dataclass(frozen=True, eq=False)
class CalibratedDataset:
    """The scans of another dataset, corrected."""

    dataset: Dataset
    calibration: BeamCalibration

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def poses(self) -> np.ndarray | None:  # (M, 4, 4)
        return self.dataset.poses

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return self.dataset.skipped

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> Scan:
        return self.calibration.apply(self.dataset[index])

    def __iter__(self) -> Iterator[Scan]:
        return (self.calibration.apply(scan) for scan in self.dataset)
