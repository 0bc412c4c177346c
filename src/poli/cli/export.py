"""`poli export`: a trained model in, an ONNX file out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poli.cli.model_options import NetworkName
from poli.cli.output import busy, say
from poli.cli.scan_files import check_place


def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The .onnx file to write.")],
    model: NetworkName = "lidar",
) -> dict[str, Any]:
    """Write a trained model as one ONNX file, for programs in C++ and other languages.

    Examples:
    poli export lidar.onnx
    poli export part.onnx --model objects
    poli export mine.onnx --model runs/mine/model.safetensors
    """
    from poli.errors import FormatError, MissingExtra
    from poli.estimation.inference import load_model

    if out.suffix.lower() != ".onnx":  # before torch is loaded, which takes its time
        raise FormatError(f"{out}: an ONNX file is written; let its name end in .onnx")
    check_place(out, Path(model))
    trained = load_model(model)
    with busy(f"writing {out}"):
        try:
            from poli.learn.onnx_export import export_onnx
        except MissingExtra:  # of torch or onnx, whichever is looked for first
            raise MissingExtra("poli export", "export") from None
        export_onnx(trained, out)
    size = out.stat().st_size
    say(f"{out}: model {trained.name}, {size / 1e3:.0f} kB; docs/export.md describes what goes in and out")
    return {"out": out, "model": trained.name, "bytes": size}
