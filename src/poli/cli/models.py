"""`poli models`: what is shipped, and the card of each."""

from typing import Annotated

import typer


def models(name: Annotated[str | None, typer.Argument(help="Print the card of this model.")] = None) -> None:
    """List the shipped models, or print the card of one: data, training, calibration, results, licence.

    Examples: poli models
              poli models objects
    """
    from poli.estimation.inference import load_model, model_card, shipped_models

    if name is not None:
        typer.echo(model_card(name))
        return
    for shipped in shipped_models():
        model = load_model(shipped)
        summary = next(line for line in model_card(shipped).splitlines() if line and not line.startswith("#"))
        cost = model.architecture.multiply_adds() / 1e3
        typer.echo(f"{shipped}: {summary} ({model.metadata['steps']} steps, {cost:.0f} thousand multiply-adds a point)")
