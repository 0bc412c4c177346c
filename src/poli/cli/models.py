"""`poli models`: what is shipped, and the card of each."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.model_options import network_names

if TYPE_CHECKING:
    from rich.table import Table

    from poli.estimation.model_info import ModelInfo


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print the card of this model.", autocompletion=network_names)
    ] = None,
) -> dict[str, Any]:
    """Show the shipped models, or print the card of one: data, training, calibration, results, license.

    Examples:
    poli models
    poli models objects
    poli models --json
    """
    from dataclasses import asdict

    from poli.cli.output import answer
    from poli.estimation.inference import model_card, shipped_models
    from poli.estimation.model_info import facts_of

    if name is not None:
        answer(model_card(name))
        return {**asdict(facts_of(name)), "card": model_card(name)}
    from rich.console import Console

    shipped = [facts_of(model) for model in shipped_models()]
    Console().print(_table(shipped))
    return {"models": [asdict(facts) for facts in shipped]}


def _table(shipped: list["ModelInfo"]) -> "Table":
    """A column a model: what there is to say of each is longer than a terminal is wide."""
    from rich.table import Table
    from rich.text import Text

    table = Table("", *(facts.name for facts in shipped), show_lines=True)
    rows = {
        "sensors": [_sensors(facts) for facts in shipped],
        "voxel sizes": [_voxels(facts) for facts in shipped],
        "calibration": [f"L times {facts.calibration:.4f}: d'(2C)^-1 d is 3 (mean, validation)" for facts in shipped],
        "results": [facts.results for facts in shipped],
        "license of data": [facts.data_license for facts in shipped],
        "sha256": [facts.sha256[:12] for facts in shipped],
        "size": [
            f"{facts.bytes / 1e6:.2f} MB, {facts.weights:,} weights, {facts.multiply_adds / 1e3:.0f} thousand multiply-adds a point"
            for facts in shipped
        ],
    }
    for label, cells in rows.items():
        table.add_row(label, *map(Text, cells))  # no markup: names of sensors may have brackets
    return table


def _sensors(facts: "ModelInfo") -> str:
    if not facts.sensors:
        return "none: objects of any size and in any pose"
    return ", ".join("random tables of beams" if sensor == "any" else sensor for sensor in facts.sensors)


def _voxels(facts: "ModelInfo") -> str:
    if facts.voxels is None or facts.spacing is None:
        return f"any: only shape counts; {facts.least_points} points or more"
    (least, largest), (low, high) = facts.voxels, facts.spacing
    return f"{least:g} to {largest:g} m{', and raw' if facts.raw else ''}; good for points {low:g} to {high:g} m apart"
