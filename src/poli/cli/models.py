"""`poli models`: list the shipped models and print their cards."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.data_options import NetworkName, network_names
from poli.cli.output import busy, say
from poli.cli.scan_files import check_place

# --- `poli export`: write a trained model as an ONNX file.


def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output .onnx file.")],
    model: NetworkName = "lidar",
) -> dict[str, Any]:
    """Write a trained model as a single ONNX file, for use from C++ and other languages.

    Examples:
    poli export lidar.onnx
    poli export part.onnx --model objects
    poli export mine.onnx --model runs/mine/model.safetensors
    """
    from poli.errors import FormatError, MissingExtra
    from poli.estimation.estimate import load_model

    if out.suffix.lower() != ".onnx":  # before the slow import of torch
        raise FormatError(f"{out}: the output is an ONNX file; its name must end in .onnx")
    check_place(out, Path(model))
    trained = load_model(model)
    with busy(f"writing {out}"):
        try:
            from poli.train.export import export_onnx
        except MissingExtra:  # torch or onnx, whichever is imported first
            raise MissingExtra("poli export", "export") from None
        export_onnx(trained, out)
    size = out.stat().st_size
    say(f"{out}: model {trained.name}, {size / 1e3:.0f} kB; docs/export.md describes its inputs and outputs")
    return {"out": out, "model": trained.name, "bytes": size}


if TYPE_CHECKING:
    from rich.table import Table

    from poli.estimation.estimate import ModelInfo


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print the card of this model.", autocompletion=network_names)
    ] = None,
) -> dict[str, Any]:
    """List the shipped models, or print the card of one: data, training, calibration, results, license.

    Examples:
    poli models
    poli models objects
    poli models --json
    """
    from dataclasses import asdict

    from poli.cli.output import answer
    from poli.estimation.estimate import facts_of, model_card, shipped_models

    if name is not None:
        answer(model_card(name))
        return {**asdict(facts_of(name)), "card": model_card(name)}
    from rich.console import Console

    shipped = [facts_of(model) for model in shipped_models()]
    Console().print(_table(shipped))
    return {"models": [asdict(facts) for facts in shipped]}


def _table(shipped: list["ModelInfo"]) -> "Table":
    """One column per model, since the entries are long."""
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
            f"{facts.bytes / 1e6:.2f} MB, {facts.weights:,} weights, {facts.multiply_adds / 1e3:.0f}k multiply-adds per point"
            for facts in shipped
        ],
    }
    for label, cells in rows.items():
        table.add_row(label, *map(Text, cells))  # no markup: sensor names may contain brackets
    return table


def _sensors(facts: "ModelInfo") -> str:
    if not facts.sensors:
        return "none: objects of any size and in any pose"
    return ", ".join("random beam tables" if sensor == "any" else sensor for sensor in facts.sensors)


def _voxels(facts: "ModelInfo") -> str:
    if facts.voxels is None or facts.spacing is None:
        return f"any (scale invariant); at least {facts.least_points} points"
    (least, largest), (low, high) = facts.voxels, facts.spacing
    return f"{least:g} to {largest:g} m{', and raw' if facts.raw else ''}; for point spacings of {low:g} to {high:g} m"
