"""`poli export`: write a trained model as an ONNX file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poli.cli.model_options import NetworkName
from poli.cli.output import busy, say
from poli.cli.scan_files import check_place


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
    from poli.estimation.inference import load_model

    if out.suffix.lower() != ".onnx":  # before the slow import of torch
        raise FormatError(f"{out}: the output is an ONNX file; its name must end in .onnx")
    check_place(out, Path(model))
    trained = load_model(model)
    with busy(f"writing {out}"):
        try:
            from poli.learn.onnx_export import export_onnx
        except MissingExtra:  # torch or onnx, whichever is imported first
            raise MissingExtra("poli export", "export") from None
        export_onnx(trained, out)
    size = out.stat().st_size
    say(f"{out}: model {trained.name}, {size / 1e3:.0f} kB; docs/export.md describes its inputs and outputs")
    return {"out": out, "model": trained.name, "bytes": size}
