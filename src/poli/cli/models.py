"""`poli models`: what is shipped, and the card of each."""

from typing import Annotated, Any

import typer

from poli.cli.model_options import network_names


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print the card of this model.", autocompletion=network_names)
    ] = None,
) -> dict[str, Any]:
    """List the shipped models, or print the card of one: data, training, calibration, results, licence.

    Examples:
    poli models
    poli models objects
    """
    from poli.cli.output import answer
    from poli.estimation.inference import load_model, model_card, shipped_models

    if name is not None:
        answer(model_card(name))
        return {"name": name, "card": model_card(name)}
    found = []
    for shipped in shipped_models():
        model = load_model(shipped)
        summary = next(line for line in model_card(shipped).splitlines() if line and not line.startswith("#"))
        cost = model.architecture.multiply_adds() / 1e3
        typer.echo(f"{shipped}: {summary} ({model.metadata['steps']} steps, {cost:.0f} thousand multiply-adds a point)")
        found.append({"name": shipped, "summary": summary, "steps": int(model.metadata["steps"]), "kilo_multiply_adds": cost})
    return {"models": found}
