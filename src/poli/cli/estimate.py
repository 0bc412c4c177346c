"""`poli estimate`: a scan file in, an ellipsoid file out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.model_options import ModelName
from poli.cli.output import busy, say
from poli.cli.scan_files import (
    SCAN_FILES,
    OutOption,
    ScanFormat,
    check_count,
    check_place,
    counted,
    is_pipe,
    naming,
    one_output,
    output_file,
    read_scan,
)

if TYPE_CHECKING:
    from poli.ellipsoids import Ellipsoids
    from poli.scan import Scan


class Regularize(StrEnum):
    none = "none"
    plane = "plane"


class Output(StrEnum):
    auto = "auto"
    ply = "ply"
    splat = "splat"
    npz = "npz"


def estimate(
    scan: Annotated[Path, typer.Argument(metavar="SCAN", help=SCAN_FILES)],
    out: Annotated[Path | None, typer.Argument(metavar="OUT", help="The .npz or .ply file to write; -: standard output.")] = None,
    out_option: OutOption = None,
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxels of this many meters first, one point each; 0: every point.")] = 0.0,
    merged: Annotated[bool, typer.Option("--merged", help="The points were not all seen from the origin.")] = False,
    k: Annotated[int | None, typer.Option(help="PCA: neighbors of each point, itself included; 24 if not given.")] = None,
    radius: Annotated[float | None, typer.Option(help="PCA: take all neighbors within this many meters instead of k.")] = None,
    regularize: Annotated[Regularize, typer.Option(help="plane: GICP's variances (0.001, 1, 1).")] = Regularize.none,
    floor: Annotated[float, typer.Option(help="Thicken every ellipsoid by this many meters.")] = 0.0,
    device: Annotated[
        str | None, typer.Option(help="Networks: run on this device of torch, such as cuda. Not given: a CPU, without torch.")
    ] = None,
    output: Annotated[Output, typer.Option(help="What to write; auto goes by the ending of OUT, and is npz for -.")] = Output.auto,
    format: ScanFormat = None,
) -> dict[str, Any]:
    """Estimate an ellipsoid for every point of a scan, by a trained network or by principal component analysis.

    Examples:
    poli estimate scan.pcd field.npz
    poli estimate scan.bin splats.ply --voxel 0.5 --output splat
    poli estimate part.ply field.npz --model objects
    poli estimate scan.bin field.npz --model pca --radius 0.5
    poli estimate scan.bin field.npz --device cuda
    cat scan.pcd | poli estimate - -o field.npz
    """
    from poli.errors import FormatError, InputError

    out = one_output(out, out_option)
    ending = ".npz" if is_pipe(out) and output in (Output.auto, Output.npz) else ".ply" if is_pipe(out) else out.suffix.lower()
    kind = output.value if output is not Output.auto else ending.lstrip(".")
    if kind not in ("npz", "ply", "splat") or (kind == "npz") != (ending == ".npz"):
        raise FormatError(f"{out}: write fields as .npz, or as .ply (--output splat for splat viewers)")
    if model == "pca" and device is not None:
        raise InputError(f"--device {device}: PCA runs on the CPU; leave it out, or choose a network by --model")
    for name, value in (("k", k), ("radius", radius)):
        if model != "pca" and value is not None:
            raise InputError(
                f"--{name} {value:g}: an option of --model pca alone, and the model is {model}; leave one of the two out"
            )
    check_place(out, scan, Path(model))
    with output_file(out, ending) as path:
        with busy(f"reading {scan}"):
            from poli.voxels import voxel_downsample

            points = read_scan(scan, format)
            with naming(scan):
                points = voxel_downsample(points, voxel) if voxel else points
            if model != "pca":
                check_count(points, scan, model)
        with busy(f"ellipsoids of {len(points)} points"):
            field = _field(points, model, merged, k, radius, regularize, floor, device)
            {"npz": field.save, "ply": field.write_ply, "splat": field.write_splat}[kind](path)
    say(f"{out}: {counted(len(field), 'ellipsoid')}")
    return {"out": out, "ellipsoids": len(field), "model": model, "voxel": voxel, "dropped": points.dropped}


def _field(
    points: "Scan",
    model: str,
    merged: bool,
    k: int | None,
    radius: float | None,
    regularize: Regularize,
    floor: float,
    device: str | None,
) -> "Ellipsoids":
    if device is None:
        from poli.estimation import estimate as on_cpu

        field = on_cpu(points, model=model, merged=merged, k=k, radius=radius)
    else:
        from poli.learn.inference import estimate as on_device

        field = on_device(points, model=model, merged=merged, device=device)
    field = field.with_floor(floor)
    return field.as_planes() if regularize is Regularize.plane else field
