"""The options of commands that say where data come from: a dataset, or a model."""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.beams.corrections import BeamCalibration
from poli.cli.commands import Only
from poli.configs import network_option
from poli.errors import InputError
from poli.options import check, option

if TYPE_CHECKING:
    from poli.io.datasets import Dataset

LogPath = Annotated[
    Path, typer.Argument(metavar="DATA", help="A dataset, a folder of scan files, or a ROS bag. Poses are not needed.")
]


def dataset_kinds() -> list[str]:
    """The known kinds of datasets."""
    from poli.io.datasets import dataset_names

    return ["auto", *dataset_names()]


@dataclass(frozen=True)
class DatasetOptions:
    """Which dataset a path holds, and which part of it."""

    dataset: str = option("auto", "Kind of data: kitti, helipr, mulran, poli, bag, folder, ...; auto: detect.", names=dataset_kinds)
    sequence: str | None = option(None, "Sequence, for datasets with several.")
    topic: str | None = option(None, "Bags: point cloud topic, if there are several.")
    sensor: str | None = option(None, "HeLiPR: sensor (velodyne, ouster, aeva or avia).")
    calibration: BeamCalibration | None = option(
        None, "Correct the beams, with the result of `poli calibrate`.", read=BeamCalibration.load
    )
    option: tuple[str, ...] = option((), "Any other dataset option as KEY=VALUE, such as poses=false; repeatable.")

    @property
    def given(self) -> dict[str, Any]:
        """The named options and those of the form KEY=VALUE."""
        named = {"sequence": self.sequence, "topic": self.topic, "sensor": self.sensor}
        texts = {name: value for name, value in named.items() if value is not None}
        values: dict[str, Any] = {}
        for text in self.option:
            key, equals, value = text.partition("=")
            if not equals or not key:
                raise InputError(f"--option {text}: expected KEY=VALUE, such as poses=false")
            if key in texts or key in values:
                raise InputError(f"--option {text}: {key} is given twice; remove one")
            values[key] = value if key in named else _value(value)
        return {**texts, **values}

    def open(self, data: Path) -> "Dataset":
        """Open the dataset, with corrected beams if a calibration is given."""
        from poli.io.datasets import CalibratedDataset

        opened = open_data(data, self.dataset, self.given)
        return opened if self.calibration is None else CalibratedDataset(opened, self.calibration)


AsRecorded = Annotated[DatasetOptions, Only("dataset", "sequence", "topic", "sensor", "option")]  # without --calibration


def open_data(data: Path, name: str, options: dict[str, Any]) -> "Dataset":
    """Open a dataset, and name its options if they are of the wrong type."""
    from poli.io.datasets import SkippedWarning, dataset

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkippedWarning)  # reported at the end
            return dataset(name, data, **options)
    except (TypeError, AttributeError) as error:
        if not options:
            raise
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise InputError(f"{data}: cannot be opened with the options {given} ({error}); change or remove one of them") from None


def _value(text: str) -> bool | int | float | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class NetworkOption:
    """A network, for commands that take no other option of a model."""

    model: str = network_option()

    def __post_init__(self) -> None:
        check(self)


def file_name(name: str) -> str:
    """A name as part of the name of a file."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "data"
