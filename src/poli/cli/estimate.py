"""`poli estimate`: a scan file in, an ellipsoid file out."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Regularize(StrEnum):
    none = "none"
    plane = "plane"


class Output(StrEnum):
    auto = "auto"
    ply = "ply"
    splat = "splat"
    npz = "npz"


def estimate(
    scan: Annotated[Path, typer.Argument(help="A .bin, .pcd, .ply, .xyz, .csv, .npy, .npz, .las or .laz file.")],
    out: Annotated[Path, typer.Argument(help="The .npz or .ply file to write.")],
    model: Annotated[
        str, typer.Option(help="pca, a shipped model (see `poli models`), or the path of a .safetensors file.")
    ] = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxels of this many metres first, one point each; 0: every point.")] = 0.0,
    merged: Annotated[bool, typer.Option("--merged", help="The points were not all seen from the origin.")] = False,
    k: Annotated[int, typer.Option(help="PCA: neighbours of each point, itself included.")] = 24,
    radius: Annotated[float | None, typer.Option(help="PCA: take all neighbours within this many metres instead of k.")] = None,
    regularize: Annotated[Regularize, typer.Option(help="plane: GICP's variances (0.001, 1, 1).")] = Regularize.none,
    floor: Annotated[float, typer.Option(help="Thicken every ellipsoid by this many metres.")] = 0.0,
    device: Annotated[
        str | None, typer.Option(help="Networks: run on this device of torch, such as cuda. Not given: a CPU, without torch.")
    ] = None,
    output: Annotated[Output, typer.Option(help="What to write; auto goes by the ending of OUT.")] = Output.auto,
) -> None:
    """Estimate an ellipsoid for every point of a scan, by principal component analysis or by a trained network.

    Examples: poli estimate scan.pcd field.npz
              poli estimate scan.bin splats.ply --voxel 0.5 --output splat
              poli estimate part.ply field.npz --model objects
              poli estimate scan.bin field.npz --model pca --radius 0.5
              poli estimate scan.bin field.npz --device cuda
    """
    from poli.data import read
    from poli.errors import FormatError, InputError
    from poli.estimation import estimate as by_network
    from poli.estimation import pca
    from poli.voxels import voxel_downsample

    kind = output.value if output is not Output.auto else out.suffix.lower().lstrip(".")
    if kind not in ("npz", "ply", "splat") or (kind == "npz") != (out.suffix.lower() == ".npz"):
        raise FormatError(f"{out}: write fields as .npz, or as .ply (--output splat for splat viewers)")
    points = read(scan)
    if points.dropped.total:
        typer.echo(f"{scan}: dropped {points.dropped.nonfinite} non-finite points and {points.dropped.zero} zero returns")
    if voxel:
        points = voxel_downsample(points, voxel)
    if model == "pca":
        if device is not None:
            raise InputError(f"--device {device}: PCA runs on the CPU; leave it out, or choose a network by --model")
        field = pca(points, k=k, radius=radius, regularize=regularize.value, floor=floor)
    else:
        if device is None:
            field = by_network(points, model=model, merged=merged)
        else:
            from poli.learn.inference import estimate as on_device

            field = on_device(points, model=model, merged=merged, device=device)
        field = field.with_floor(floor)
        field = field.as_planes() if regularize is Regularize.plane else field
    {"npz": field.save, "ply": field.write_ply, "splat": field.write_splat}[kind](out)
    typer.echo(f"{out}: {len(field)} ellipsoids")
