"""`poli estimate`: write the ellipsoids of a scan."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.data_options import CalibrationFile, ModelName, load_calibration
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
    import numpy as np

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
    out: Annotated[Path | None, typer.Argument(metavar="OUT", help="Output .npz or .ply file; -: standard output.")] = None,
    out_option: OutOption = None,
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Downsample first: voxel size in meters; 0: use every point.")] = 0.0,
    merged: Annotated[bool, typer.Option("--merged", help="The points were not all seen from the origin (a map).")] = False,
    k: Annotated[int | None, typer.Option(help="PCA: neighbors per point, including itself; default: 24.")] = None,
    radius: Annotated[float | None, typer.Option(help="PCA: use all neighbors within this radius in meters instead of k.")] = None,
    motion: Annotated[
        float | None,
        typer.Option(min=0.0, help="Sizes for scans taken this many meters apart (0: the same place again); default: unknown."),
    ] = None,
    regularize: Annotated[Regularize, typer.Option(help="plane: GICP's variances (0.001, 1, 1).")] = Regularize.none,
    floor: Annotated[float, typer.Option(help="Thicken each ellipsoid by this many meters.")] = 0.0,
    device: Annotated[
        str | None, typer.Option(help="Networks: run on this torch device, such as cuda; default: CPU, without torch.")
    ] = None,
    output: Annotated[Output, typer.Option(help="Output format; auto: from the ending of OUT, npz for -.")] = Output.auto,
    calibration: CalibrationFile = None,
    format: ScanFormat = None,
) -> dict[str, Any]:
    """Estimate an ellipsoid for each point of a scan, with a trained network or principal component analysis (PCA).

    Clouds in map coordinates, such as UTM, are centered for computing and taken as
    --merged, with normals facing up. Outputs are in the original coordinates; splat
    files, which hold 4-byte floats, are relative to the printed offset.

    Examples:
    poli estimate scan.pcd field.npz
    poli estimate scan.bin splats.ply --voxel 0.5 --output splat
    poli estimate part.ply field.npz --model objects
    poli estimate scan.bin field.npz --model pca --radius 0.5
    poli estimate scan.bin field.npz --motion 1.2
    poli estimate scan.bin field.npz --device cuda
    cat scan.pcd | poli estimate - -o field.npz
    """
    from poli.cli.scan_files import above, map_offset, say_offset, with_offset, without_offset
    from poli.errors import FormatError, InputError

    out = one_output(out, out_option)
    ending = ".npz" if is_pipe(out) and output in (Output.auto, Output.npz) else ".ply" if is_pipe(out) else out.suffix.lower()
    kind = output.value if output is not Output.auto else ending.lstrip(".")
    if kind not in ("npz", "ply", "splat") or (kind == "npz") != (ending == ".npz"):
        raise FormatError(f"{out}: write fields as .npz, or as .ply (--output splat for splat viewers)")
    if model == "pca" and device is not None:
        raise InputError(f"--device {device}: PCA runs on the CPU; remove it, or choose a network with --model")
    if model == "pca" and motion is not None:
        raise InputError(f"--motion {motion:g}: PCA has no use for it; remove it, or choose a network with --model")
    for name, value in (("k", k), ("radius", radius)):
        if model != "pca" and value is not None:
            raise InputError(f"--{name} {value:g}: only for --model pca, but the model is {model}; remove one of the two")
    beams = load_calibration(calibration)
    check_place(out, scan, Path(model))
    with output_file(out, ending) as path:
        with busy(f"reading {scan}"):
            from poli.voxels import voxel_downsample

            points = read_scan(scan, format)
            offset = map_offset(points)
            kept = (
                "OUT is relative to {offset}"
                if kind == "splat"
                else "centered at {offset} for computing; OUT has the original ones"
            )
            say_offset(scan, points, offset, f"{kept}; taken as --merged")
            points = without_offset(points, offset)
            with naming(scan):
                points = points if beams is None else beams.apply(points)
                points = voxel_downsample(points, voxel) if voxel else points
            if model != "pca":
                check_count(points, scan, model)
        with busy(f"ellipsoids of {len(points)} points"):
            merged = merged or offset is not None
            field = _field(points, model, merged, above(offset), k, radius, motion, regularize, floor, device)
            field = field if kind == "splat" else with_offset(field, offset)
            {"npz": field.save, "ply": field.write_ply, "splat": field.write_splat}[kind](path)
    say(f"{out}: {counted(len(field), 'ellipsoid')}")
    return {
        "out": out,
        "ellipsoids": len(field),
        "model": model,
        "voxel": voxel,
        "dropped": points.dropped,
        "offset": offset if kind == "splat" else None,  # to add to the coordinates of OUT
    }


def _field(
    points: "Scan",
    model: str,
    merged: bool,
    viewpoint: "np.ndarray | None",
    k: int | None,
    radius: float | None,
    motion: float | None,
    regularize: Regularize,
    floor: float,
    device: str | None,
) -> "Ellipsoids":
    if device is None:
        from poli.estimation import estimate as on_cpu

        field = on_cpu(points, model=model, viewpoint=viewpoint, merged=merged, k=k, radius=radius, motion=motion)
    else:
        from poli.train.device import estimate as on_device

        field = on_device(points, model=model, viewpoint=viewpoint, merged=merged, device=device, motion=motion)
    field = field.with_floor(floor)
    return field.as_planes() if regularize is Regularize.plane else field
