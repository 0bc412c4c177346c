"""Model options shared by the commands, with tab completion."""

from pathlib import Path
from typing import Annotated

import typer


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
