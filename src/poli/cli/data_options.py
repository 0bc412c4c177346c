"""Opening the data that a command names: which dataset, which of its options, and errors in the command line's words."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from poli.data.datasets import Dataset


def dataset_kinds() -> list[str]:
    from poli.data.datasets import dataset_names

    return ["auto", *dataset_names()]


DatasetName = Annotated[
    str,
    typer.Option(help="kitti, helipr, mulran, poli, bag, folder, ...; auto goes by what is there.", autocompletion=dataset_kinds),
]
SequenceName = Annotated[str | None, typer.Option(help="Of a dataset that has several.")]
DatasetOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Another option of the dataset, such as topic=/points; repeatable."),
]


def dataset_options(given: list[str], sequence: str | None) -> dict[str, Any]:
    from poli.errors import InputError

    words = {} if sequence is None else {"sequence": sequence}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--option {text}: expected KEY=VALUE, such as topic=/points")
        if key in words:
            raise InputError(f"--option {text}: {key} is given twice; leave one out")
        words[key] = value
    return {key: value if key == "sequence" else _value(value) for key, value in words.items()}


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
    from poli.errors import FormatError, InputError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkippedWarning)  # told at the end, with all else
            return open_dataset(name, data, **options)
    except (InputError, FormatError) as error:
        raise type(error)(in_options(str(error))) from None
    except (TypeError, AttributeError) as error:  # a number where a text is expected, or the like
        if not options:
            raise
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise InputError(f"{data}: cannot be opened with the options {given} ({error}); leave out or change one of them") from None


def in_options(message: str) -> str:
    """What the library calls an argument, as the option of this command."""
    import re

    message = re.sub(r"(?<= )sequence=", "--sequence", message).replace(" on_loss='restart'", " --on-loss restart")
    message = message.replace("read it with poli.read", "give the folder of all its scans")
    message = re.sub(r"(?<= )(?=(topic|ending|poses|stamps|time_unit)=)", "--option ", message)
    return re.sub(r"(--option \w+=)'([^' ]*)'", r"\1\2", message)  # a shell needs no quotes


def file_name(name: str) -> str:
    import re

    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "data"
