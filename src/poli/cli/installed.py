"""`poli models`, `poli export`, `poli warmup` and `poli --version`: what is installed."""

import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from poli.cli.commands import Commands
from poli.cli.inputs import NetworkOption, check_place
from poli.cli.output import answer, busy, say
from poli.configs import network_names
from poli.errors import FormatError, MissingExtra, PoliError

if TYPE_CHECKING:
    from poli.estimation.estimate import ModelInfo


class _Models(TyperGroup):
    """`poli models` and `poli models NAME` are short for `poli models show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = next((word for word in args if not word.startswith("-")), "")
        return super().parse_args(ctx, args if named in self.commands or "--help" in args else ["show", *args])


models_app = Commands(name="models", help="The shipped models and their cards; import others.", cls=_Models)


@models_app.command()
def show(
    name: Annotated[str | None, typer.Argument(help="Print the card of this model.", autocompletion=network_names)] = None,
) -> dict[str, Any]:
    """List the shipped models, or print the card of one: data, training, calibration, results, license.

    `show` can be left out.

    Examples:
    poli models
    poli models show objects
    poli models show --json
    """
    from poli.estimation.estimate import facts_of, model_card, shipped_models

    if name is not None:
        answer(model_card(name))
        return {**asdict(facts_of(name)), "card": model_card(name)}
    shipped = [facts_of(model) for model in shipped_models()]
    for facts in shipped:
        sensors = ", ".join("random beam tables" if sensor == "any" else sensor for sensor in facts.sensors)
        size = f"{facts.bytes / 1e6:.2f} MB, {facts.weights:,} weights"
        say(f"{facts.name}: {size}, {facts.multiply_adds / 1e3:.0f}k multiply-adds per point, sha256 {facts.sha256[:12]}")
        say(f"  sensors: {sensors or 'none: objects of any size and in any pose'}")
        say(f"  voxel sizes: {_voxels(facts)}")
        say(f"  calibration: L times {facts.calibration:.4f}, found on validation data (see the card)")
        say(f"  results: {facts.results}")
        say(f"  license of data: {facts.data_license}")
    return {"models": [asdict(facts) for facts in shipped]}


@models_app.command(name="import")
def import_model(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A .pth file of the paper's authors.")],
    out: Annotated[Path | None, typer.Option(help="Output .safetensors file; default: the checkpoint's name, here.")] = None,
    calibration: Annotated[
        float,
        typer.Option(help="Multiply L by this: 1 for covariances as published, some 100 times too large; 0.1 for calibrated."),
    ] = 1.0,
) -> dict[str, Any]:
    """Write a checkpoint published by the paper's authors as a model file, and a card beside it.

    The checkpoint's tensors are read; code in it is not executed. Needs the extra
    `train`, also to estimate with the model.

    Examples:
    poli models import vlp_helipr_0.5m.pth
    poli models import objects.pth --out paper.safetensors --calibration 0.1
    """
    from poli.train.published import import_checkpoint

    target = out or Path(f"{checkpoint.stem}.safetensors")
    read = import_checkpoint(checkpoint, target, calibration)
    say(f"{read.model}: the paper's network for {read.kind}, {read.weights:,} weights; use it with --model {read.model}")
    say(f"{read.card}: its card; covariances are multiplied by {calibration**2:g}, and were some 100 times too large")
    return {"out": read.model, "card": read.card, "kind": read.kind, "weights": read.weights, "calibration": calibration}


def _voxels(facts: "ModelInfo") -> str:
    if facts.voxels is None or facts.spacing is None:
        return f"any (scale invariant); at least {facts.least_points} points"
    (least, largest), (low, high) = facts.voxels, facts.spacing
    return f"{least:g} to {largest:g} m{', and raw' if facts.raw else ''}; for point spacings of {low:g} to {high:g} m"


def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output .onnx file.")],
    network: NetworkOption,
) -> dict[str, Any]:
    """Write a trained model as a single ONNX file, for use from C++ and other languages.

    Examples:
    poli export lidar.onnx
    poli export part.onnx --model objects
    poli export mine.onnx --model runs/mine/model.safetensors
    """
    from poli.estimation.estimate import load_model

    if out.suffix.lower() != ".onnx":  # before the slow import of torch
        raise FormatError(f"{out}: the output is an ONNX file; its name must end in .onnx")
    check_place(out, Path(network.model))
    trained = load_model(network.model)
    with busy(f"writing {out}"):
        try:
            from poli.train.export import export_onnx
        except MissingExtra:  # torch or onnx, whichever is imported first
            raise MissingExtra("poli export", "export") from None
        export_onnx(trained, out)
    size = out.stat().st_size
    say(f"{out}: model {trained.name}, {size / 1e3:.0f} kB; docs/export.md describes its inputs and outputs")
    return {"out": out, "model": trained.name, "bytes": size}


def warmup() -> dict[str, Any]:
    """Compile all kernels and cache them, so that no later command waits for the compiler.

    Takes about a minute the first time, and seconds once everything is cached. Run it when
    an image is built or a robot is installed, as the user who runs poli later.

    Examples:
    poli warmup
    """
    from poli.kernel import kernel_cache
    from poli.warmup import warm_up

    folder, trouble = kernel_cache()
    if trouble:
        raise PoliError(f"kernels cannot be cached: {trouble}")
    say(f"compiling kernels into {folder}")
    warm_up(say)
    return {"folder": folder}


def print_version() -> None:
    """Print the version, and where kernels are cached."""
    import numpy as np

    import poli
    from poli.estimation.estimate import shipped_models
    from poli.kernel import kernel_cache

    say(f"poli {poli.__version__}")
    say(f"python {platform.python_version()}, numpy {np.__version__}, {sys.platform} {platform.machine()}")
    folder, trouble = kernel_cache()
    say(f"kernels: not cached: {trouble}" if trouble else f"kernels: cached in {folder}")
    say(f"models: {', '.join(shipped_models())}")
