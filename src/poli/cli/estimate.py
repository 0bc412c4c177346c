"""`poli estimate`: write the ellipsoids of a scan."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from poli.cli import inputs as files
from poli.cli.commands import Only
from poli.cli.output import busy, say
from poli.configs import EstimateConfig
from poli.errors import FormatError, InputError

if TYPE_CHECKING:
    import numpy as np

    from poli.ellipsoids import Ellipsoids
    from poli.scan import Scan

_OPTIONS = Only("model", "voxel", "merged", "k", "radius", "motion", "curvature", "floor", "calibration")


def estimate(
    scan: Annotated[Path, typer.Argument(metavar="SCAN", help=files.SCAN_FILES)],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output .npz or .ply file; -: standard output.")],
    config: Annotated[EstimateConfig, _OPTIONS],
    regularize: Annotated[Literal["none", "plane"], typer.Option(help="plane: GICP's variances (0.001, 1, 1).")] = "none",
    device: Annotated[str | None, typer.Option(help="Networks: torch device, such as cuda; default: CPU, without torch.")] = None,
    output: Annotated[
        Literal["auto", "ply", "splat", "npz"], typer.Option(help="Output format; auto: by the name of OUT.")
    ] = "auto",
    format: files.ScanFormat = None,
) -> dict[str, Any]:
    """Estimate an ellipsoid for each point of a scan, with a trained network or principal component analysis (PCA).

    Clouds in map coordinates, such as UTM, are centered for computing and taken as
    --merged, with normals facing up. Outputs are in the original coordinates; splat
    files, which hold 4-byte floats, are relative to the printed offset.

    Examples:
    poli estimate scan.pcd field.npz
    poli estimate scan.bin splats.ply --voxel 0.5 --output splat
    poli estimate scan.bin field.npz --model pca --radius 0.5
    poli estimate scan.bin field.npz --curvature
    poli estimate scan.bin field.npz --device cuda
    cat scan.pcd | poli estimate - field.npz
    """
    ending = ".npz" if files.is_pipe(out) and output in ("auto", "npz") else ".ply" if files.is_pipe(out) else out.suffix.lower()
    kind = output if output != "auto" else ending.lstrip(".")
    if kind not in ("npz", "ply", "splat") or (kind == "npz") != (ending == ".npz"):
        raise FormatError(f"{out}: write fields as .npz, or as .ply (--output splat for splat viewers)")
    if config.model == "pca" and device is not None:
        raise InputError(f"--device {device}: PCA runs on the CPU; remove it, or choose a network with --model")
    if config.curvature and device is not None:
        raise InputError(f"--curvature runs on the CPU; remove it, or --device {device}")
    files.check_place(out, scan, Path(config.model))
    with files.output_file(out, ending) as path:
        with busy(f"reading {scan}"):
            from poli.voxels import voxel_downsample

            points = files.read_scan(scan, format)
            place = "OUT is relative to {offset}" if kind == "splat" else "centered at {offset} for computing and moved back in OUT"
            points, offset = files.centered(scan, points, f"{place}; taken as --merged")
            with files.naming(scan):
                points = points if config.calibration is None else config.calibration.apply(points)
                points = voxel_downsample(points, config.voxel) if config.voxel else points
        with busy(f"ellipsoids of {len(points)} points"), files.naming(scan):
            field = _field(points, replace(config, merged=config.merged or offset is not None), files.above(offset), device)
            field = field.as_planes() if regularize == "plane" else field
            field = field if kind == "splat" or offset is None else field.transform(files.shift(offset))
            {"npz": field.save, "ply": field.write_ply, "splat": field.write_splat}[kind](path)
    say(f"{out}: {files.counted(len(field), 'ellipsoid')}")
    told = {"out": out, "ellipsoids": len(field), "model": config.model, "voxel": config.voxel, "dropped": points.dropped}
    return {**told, "offset": offset if kind == "splat" else None}  # to add to the coordinates of OUT


def _field(points: "Scan", config: EstimateConfig, viewpoint: "np.ndarray | None", device: str | None) -> "Ellipsoids":
    common: dict[str, Any] = {"viewpoint": viewpoint, "merged": config.merged, "motion": config.motion}
    if device is None:
        from poli.estimation import estimate as on_cpu

        field = on_cpu(points, config.model, k=config.k, radius=config.radius, curvature=config.curvature, **common)
    else:
        from poli.train.device import estimate as on_device

        field = on_device(points, config.model, device=device, **common)
    return field.with_floor(config.floor)
