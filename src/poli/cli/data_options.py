"""Dataset options shared by the commands, and opening the dataset they name."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from poli.beams.corrections import BeamCalibration
    from poli.io.datasets import Dataset


def dataset_kinds() -> list[str]:
    from poli.io.datasets import dataset_names

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

    from poli.errors import InputError
    from poli.io.datasets import SkippedWarning
    from poli.io.datasets import dataset as open_dataset

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
    from poli.beams.corrections import BeamCalibration

    return None if path is None else BeamCalibration.load(path)


def calibrated(opened: "Dataset", path: Path | None) -> "Dataset":
    """Return the dataset with corrected beams, if a calibration is given."""
    from poli.io.datasets.registry import CalibratedDataset

    calibration = load_calibration(path)
    return opened if calibration is None else CalibratedDataset(opened, calibration)


def file_name(name: str) -> str:
    import re

    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "data"


# --- Model options shared by the commands, with tab completion.


def network_names() -> list[str]:
    """Names of the shipped networks. Avoids importing `poli.estimation`, which takes a second."""
    import poli

    return sorted(file.stem for file in (Path(poli.__file__).parent / "estimation" / "models").glob("*.safetensors"))


def model_names() -> list[str]:
    return [*network_names(), "pca"]


def check_network(model: str) -> str:
    return _check(model, network_names())


def check_model(model: str) -> str:
    return _check(model, model_names())


def _check(model: str, known: list[str]) -> str:
    """Validate a model name before any heavy import. A .safetensors file is validated when it is read."""
    from poli.errors import InputError, did_you_mean

    if model not in known and Path(model).suffix != ".safetensors":
        hint = did_you_mean(model, known)
        raise InputError(f"model is {model!r}; expected one of {', '.join(known)}, or the path of a .safetensors file{hint}")
    return model


NetworkName = Annotated[
    str,
    typer.Option(
        help="Model: a shipped one (see `poli models`) or the path of a .safetensors file.",
        autocompletion=network_names,
        callback=check_network,
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        help="Model: a shipped one (see `poli models`), pca, or the path of a .safetensors file.",
        autocompletion=model_names,
        callback=check_model,
    ),
]
