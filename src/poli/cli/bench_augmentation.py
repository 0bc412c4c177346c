"""`poli bench augmentation`, `density`, `registration`: what denser scans are worth to systems that know nothing of ellipsoids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poli.cli.model_options import NetworkName

if TYPE_CHECKING:
    from poli.tasks.densify import DensifyConfig

_Out = Annotated[Path, typer.Option(help="Folder for the table and the plot; made if needed.")]
_Json = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")]
_Drives = Annotated[Path, typer.Option(help="Folder where simulated drives are kept; missing ones are made.")]
_Scans = Annotated[int, typer.Option(min=2, help="Of each simulated drive.")]
_Systems = Annotated[str, typer.Option(help="KISS-ICP, GenZ-ICP, or both with a comma between them.")]
_Runs = Annotated[Path, typer.Option(help="Folder where outcomes are kept; an interrupted benchmark goes on from there.")]
_Fresh = Annotated[bool, typer.Option("--fresh", help="Forget kept outcomes first (when the code has changed).")]
_Processes = Annotated[int, typer.Option(min=0, help="That run at the same time; 0: one a core.")]
_Real = Annotated[
    Path | None,
    typer.Option(help="A folder of real sequences in the layout of KITTI odometry; without it, simulated drives only."),
]
_Places = Annotated[str | None, typer.Option(help="Held-out places, as town,campus; all six if not given.")]
_PerPoint = Annotated[int | None, typer.Option(min=1, help="Samples of each ellipsoid; those of `poli densify` if not given.")]
_Within = Annotated[float | None, typer.Option(min=0.0, help="Reach in standard deviations; that of `poli densify` if not given.")]


def augmentation(
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: NetworkName = "lidar",
    real: _Real = None,
    drives: _Drives = Path("runs/odometry_drives"),
    scans: _Scans = 121,
    places: _Places = None,
    sensor: Annotated[str, typer.Option(help="A name, or a file of beams.")] = "vlp16",
    systems: _Systems = "KISS-ICP,GenZ-ICP",
    per_point: _PerPoint = None,
    within: _Within = None,
    runs: _Runs = Path("runs/augmentation_bench"),
    fresh: _Fresh = False,
    processes: _Processes = 0,
) -> None:
    """KISS-ICP and GenZ-ICP on raw scans, and on scans made denser by PCA, by interpolated range images and by ellipsoids.

    Example:
    poli bench augmentation --real sequences --json augmentation.json
    """
    from poli.bench.augmentation import AugmentationBench, run
    from poli.bench.held_out import PLACES

    chosen = tuple(places.split(",")) if places else PLACES
    command = f"poli bench augmentation --model {Path(model).name} --scans {scans} --sensor {Path(sensor).name} --systems {systems}"
    command += _given("--places", places) + _given("--per-point", per_point) + _given("--within", within)
    command += " --real SEQUENCES" if real else ""
    bench = AugmentationBench(
        _config(model, per_point, within), systems=tuple(systems.split(",")), sensor=sensor, places=chosen, scans=scans,
        drives=drives, real=real, runs=runs, fresh=fresh, processes=processes,
    )  # fmt: skip
    run(bench, out, json_path, command)


def density(
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: NetworkName = "lidar",
    drives: _Drives = Path("runs/odometry_drives"),
    scans: _Scans = 121,
    places: Annotated[str, typer.Option(help="Held-out places, with commas between them.")] = "town,riverside",
    sensor: Annotated[str, typer.Option(help="A name, or a file of beams.")] = "vlp16",
    systems: _Systems = "KISS-ICP",
    runs: _Runs = Path("runs/augmentation_bench"),
    fresh: _Fresh = False,
    processes: _Processes = 0,
) -> None:
    """How errors on denser scans change with the number of samples, their reach, and which ellipsoids are sampled.

    Example:
    poli bench density --places town,campus
    """
    from poli.bench.augmentation import AugmentationBench
    from poli.bench.density import run

    command = f"poli bench density --model {Path(model).name} --scans {scans} --places {places} --sensor {Path(sensor).name}"
    bench = AugmentationBench(
        _config(model), systems=tuple(systems.split(",")), sensor=sensor, places=tuple(places.split(",")), scans=scans,
        drives=drives, runs=runs, fresh=fresh, processes=processes,
    )  # fmt: skip
    run(bench, out, json_path, f"{command} --systems {systems}")


def registration(
    out: _Out = Path("results"),
    json_path: _Json = None,
    model: NetworkName = "lidar",
    real: _Real = None,
    drives: _Drives = Path("runs/odometry_drives"),
    scans: _Scans = 121,
    places: _Places = None,
    pairs: Annotated[int, typer.Option(min=1, help="Of each place.")] = 50,
    fewer: Annotated[int, typer.Option(min=1, help="Of each of the first places, for other voxels and beams.")] = 8,
    tables: Annotated[
        str, typer.Option(help="What to measure: places, voxels (with places) and resolutions.")
    ] = "places,voxels,resolutions",
    runs: _Runs = Path("runs/registration_bench"),
    fresh: _Fresh = False,
    processes: _Processes = 0,
) -> None:
    """Global registration by KISS-Matcher and a TEASER-like pipeline on raw and denser scans, and by `poli register`.

    Examples:
    poli bench registration --real sequences
    poli bench registration --places town --pairs 10
    """
    from dataclasses import replace

    from poli.bench.held_out import PLACES
    from poli.bench.registration import FOR_FEATURES, RegistrationBench, run

    chosen = tuple(places.split(",")) if places else PLACES
    command = (
        f"poli bench registration --model {Path(model).name} --scans {scans} --pairs {pairs} --fewer {fewer} --tables {tables}"
    )
    command += _given("--places", places) + (" --real SEQUENCES" if real else "")
    bench = RegistrationBench(
        replace(FOR_FEATURES, model=model), places=chosen, scans=scans, pairs=pairs, fewer=fewer, drives=drives, real=real,
        tables=tuple(tables.split(",")), runs=runs, fresh=fresh, processes=processes,
    )  # fmt: skip
    run(bench, out, json_path, command)


def _config(model: str, per_point: int | None = None, within: float | None = None) -> DensifyConfig:
    from poli.tasks.densify import DensifyConfig

    given = {"per_point": per_point, "max_sigma": within}
    return DensifyConfig(model=model, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def _given(option: str, value: object) -> str:
    return "" if value is None else f" {option} {value}"
