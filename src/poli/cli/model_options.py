"""Naming a model on the command line, and what Tab completes it to."""

from pathlib import Path
from typing import Annotated

import typer


def network_names() -> list[str]:
    """Of the shipped models. Not by `poli.estimation`, which takes a second to load."""
    import poli

    return sorted(file.stem for file in (Path(poli.__file__).parent / "estimation" / "models").glob("*.safetensors"))


def model_names() -> list[str]:
    return [*network_names(), "pca"]


NetworkName = Annotated[
    str,
    typer.Option(help="A shipped model (see `poli models`), or the path of a .safetensors file.", autocompletion=network_names),
]
ModelName = Annotated[
    str,
    typer.Option(help="A shipped model (see `poli models`), pca, or the path of a .safetensors file.", autocompletion=model_names),
]
