"""Dataset options shared by the commands, and opening the dataset they name."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from poli.beam_calibration import BeamCalibration
    from poli.data.datasets import Dataset


def dataset_kinds() -> list[str]:
    from poli.data.datasets import dataset_names

    return ["auto", *dataset_names()]


class Deskew(StrEnum):
    auto = "auto"
    on = "on"
    off = "off"
    azimuth = "azimuth"


DeskewMode = Annotated[
    Deskew,
    typer.Option(help="Undo the motion within each scan. auto: if points have times; azimuth: derive them (spinning sensors)."),
]
DatasetName = Annotated[
    str,
    typer.Option(help="Kind of data: kitti, helipr, mulran, poli, bag, folder, ...; auto: detect.", autocompletion=dataset_kinds),
]
SequenceName = Annotated[str | None, typer.Option(help="Sequence, for datasets with several.")]
TopicName = Annotated[str | None, typer.Option(help="Bags: point cloud topic, if there are several.")]
SensorName = Annotated[str | None, typer.Option(help="HeLiPR: sensor (velodyne, ouster, aeva or avia).")]
DatasetOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Any other dataset option, such as poses=false; repeatable."),
]
CalibrationFile = Annotated[
    Path | None, typer.Option("--calibration", help="Correct the beams: a TOML file that `poli calibrate` has written.")
]


def dataset_options(
    given: list[str], sequence: str | None = None, topic: str | None = None, sensor: str | None = None
) -> dict[str, Any]:
    """Merge the named dataset options and the KEY=VALUE ones into one dict."""
    from poli.errors import InputError

    named = {"sequence": sequence, "topic": topic, "sensor": sensor}
    texts = {name: value for name, value in named.items() if value is not None}
    values: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--option {text}: expected KEY=VALUE, such as poses=false")
        if key in texts or key in values:
            raise InputError(f"--option {text}: {key} is given twice; remove one")
        values[key] = value if key in named else _value(value)
    return {**texts, **values}


def _value(text: str) -> bool | int | float | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def open_data(data: Path, name: str, options: dict[str, Any]) -> "Dataset":
    import warnings

    from poli.data.datasets import SkippedWarning
    from poli.data.datasets import dataset as open_dataset
    from poli.errors import InputError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkippedWarning)  # reported at the end
            return open_dataset(name, data, **options)
    except (TypeError, AttributeError) as error:  # an option of the wrong type
        if not options:
            raise
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise InputError(f"{data}: cannot be opened with the options {given} ({error}); change or remove one of them") from None


def load_calibration(path: Path | None) -> "BeamCalibration | None":
    from poli.beam_calibration import BeamCalibration

    return None if path is None else BeamCalibration.load(path)


def calibrated(opened: "Dataset", path: Path | None) -> "Dataset":
    """Return the dataset with corrected beams, if a calibration is given."""
    from poli.data.datasets.calibrated import CalibratedDataset

    calibration = load_calibration(path)
    return opened if calibration is None else CalibratedDataset(opened, calibration)


def file_name(name: str) -> str:
    import re

    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "data"
