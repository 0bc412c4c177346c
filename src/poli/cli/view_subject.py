"""Detect the kind of data given to `poli view`, and prepare what to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poli.cli.data_options import open_data
from poli.cli.output import busy, track
from poli.cli.scan_files import is_pipe, naming, read_scan
from poli.errors import FormatError, InputError, PoliError

if TYPE_CHECKING:
    from poli.data.datasets import Dataset
    from poli.ellipsoids import Ellipsoids
    from poli.scan import Scan
    from poli.show.estimated import Estimates
    from poli.show.odometry_run import OdometryRun
    from poli.show.panel import Panel, Track
    from poli.show.world import Moment

_SIDE_BY_SIDE = 4  # scans without known poses
_TOGETHER = 50  # scans fused into a world


@dataclass(frozen=True, eq=False)
class Subject:
    name: str
    note: str
    panels: Callable[[], list[Panel]]  # computed on demand: a series does not need them
    remarks: tuple[str, ...] = ()
    series: Callable[[], Iterator[Moment]] | None = None
    tracks: tuple[Track, ...] = ()
    has_normals: bool = True  # otherwise, colors show heights unless the user chooses


def subject_of(data: Path, dataset: str, options: dict[str, Any], how: Estimates, scans: int | None, series: bool) -> Subject:
    from poli.data.datasets.folder import scan_ending
    from poli.show.odometry_run import is_odometry_run

    if is_pipe(data):
        return _scan_file(data, how)
    if not data.exists():
        raise FormatError(f"{data}: no such file or folder")
    if data.is_dir() and is_odometry_run(data):
        return _run(data, how, scans, series)
    is_scan = data.is_file() and (scan_ending(data) or data.suffix.lower() in (".xyz", ".csv", ".txt"))
    if is_scan and dataset == "auto":
        return _file(data, how)
    if data.is_file() and dataset == "auto" and data.suffix not in (".bag", ".mcap", ".db3"):
        raise FormatError(f"{data}: not a known ending of a scan or ellipsoid file; see `poli view --help`")
    if how.compare:
        raise InputError("--compare: only one scan can be compared; give the path of a scan file")
    return _scans(open_data(data, dataset, options), how, scans, series)


# --- one file


def _file(path: Path, how: Estimates) -> Subject:
    from poli.ellipsoids import Ellipsoids
    from poli.ellipsoids.splat import is_splat, splat_of_records
    from poli.files.npz import read_npz_arrays
    from poli.files.ply import read_ply_element
    from poli.show.panel import Panel

    field, colors = None, None
    if path.suffix.lower() == ".npz" and {"means", "covariances"} <= set(read_npz_arrays(path)):
        field = Ellipsoids.load(path)
    elif path.suffix.lower() == ".ply" and path.stat().st_size:
        records = read_ply_element(path)
        if is_splat(records):
            field, colors = splat_of_records(records, path)
        elif "cov_xx" in (records.dtype.names or ()):
            field = Ellipsoids.load(path)
    if field is None:
        return _scan_file(path, how)
    if how.compare:
        raise InputError(f"--compare: {path} holds ellipsoids, not a scan; give the scan instead")
    if not len(field):
        raise FormatError(f"{path}: no ellipsoids in this file")
    shown = [Panel("Ellipsoids", field=field, colors=colors)]
    return Subject(path.name, "", lambda: shown)


def _scan_file(path: Path, how: Estimates) -> Subject:
    from poli.show.estimated import scan_panels

    with busy(f"ellipsoids of {path}"), naming(path):
        scan = read_scan(path)
        shown = scan_panels(scan, how, str(path))
    return Subject("scan" if is_pipe(path) else path.name, f"{len(scan):,} returns", lambda: shown)


# --- scans in order


def _scans(data: Dataset, how: Estimates, scans: int | None, series: bool) -> Subject:
    from poli.show.panel import Panel, Track
    from poli.show.world import fused_world, moments, spread

    count = len(data)
    if not count:
        raise InputError(f"{data.name}: no scans to show")
    remarks = (f"{data.name}: {len(data.skipped)} scans are skipped by the dataset",) if data.skipped else ()
    poses = data.poses
    default = count if series else _SIDE_BY_SIDE if poses is None else _TOGETHER
    rows = spread(count, default if scans is None else scans)
    tracks = () if poses is None else (Track(poses[:, :3, 3], "sensor path"),)

    def recorded() -> Iterator[Moment]:
        return _watched(moments(data, rows, poses, how), len(rows))

    @cache
    def panels() -> list[Panel]:
        if poses is None:
            found = [_moment_panel(moment, how) for moment in recorded() if len(moment.scan)]
            if not found:
                raise InputError(f"{data.name}: all scans that were read are empty")
            return found
        world, fused = fused_world(recorded(), how)
        return [Panel("World", field=world, caption=f"{fused} of {count} scans, fused; {how.caption}", tracks=tracks)]

    return Subject(data.name, f"{count:,} scans", panels, remarks, recorded, tracks)


def _watched(series: Iterator[Moment], count: int) -> Iterator[Moment]:
    yield from track(series, "ellipsoids", count)


def _moment_panel(moment: Moment, how: Estimates) -> Panel:
    from poli.show.panel import Panel

    if moment.field is None:
        return Panel(f"Scan {moment.number}", points=moment.scan, caption="too few returns for ellipsoids")
    return Panel(f"Scan {moment.number}", field=moment.field, caption=how.caption)


# --- a run of odometry


def _run(folder: Path, how: Estimates, scans: int | None, series: bool) -> Subject:
    from poli.scan import Scan
    from poli.show.odometry_run import read_odometry_run
    from poli.show.panel import Panel
    from poli.show.world import fused_world, moments, spread

    run = read_odometry_run(folder)
    if how.compare:
        raise InputError("--compare: only one scan can be compared; give the path of a scan file")
    count, first = len(run.poses), run.data["first"]
    note = f"{count:,} scans, {run.length:.1f} m"
    data, missing = (None, "") if run.map is not None and not series else _data_of(run)
    available = 0 if data is None else max(0, min(count, len(data) - first))
    default = available if series else _TOGETHER
    rows = spread(available, default if scans is None else scans)

    def recorded() -> Iterator[Moment]:
        assert data is not None
        return _watched(moments(data, rows, run.poses, how, first), len(rows))

    @cache
    def panels() -> list[Panel]:
        if run.map is not None:
            return [_map_panel(run.map, run.tracks)]
        if not available:
            return [Panel("Path", caption="the scans are no longer available", tracks=run.tracks)]
        world, fused = fused_world(recorded(), how)
        return [Panel("World", field=world, caption=f"{fused} of {count} scans, fused; {how.caption}", tracks=run.tracks)]

    shown = recorded if available else None
    remarks = (*run.remarks, missing) if missing else run.remarks
    return Subject(run.data["name"], note, panels, remarks, shown, run.tracks, not isinstance(run.map, Scan))


def _map_panel(shown: Ellipsoids | Scan, tracks: tuple[Track, ...]) -> Panel:
    from poli.scan import Scan
    from poli.show.page import MOST_ELLIPSOIDS, MOST_POINTS
    from poli.show.panel import Panel
    from poli.show.thinning import thin_field, thin_points

    if isinstance(shown, Scan):
        points, voxel = thin_points(shown, MOST_POINTS)
        return Panel("Map", points=points, caption=_thinned(len(shown), "points", voxel), tracks=tracks)
    field, voxel = thin_field(shown, MOST_ELLIPSOIDS)
    return Panel("Map", field=field, caption=_thinned(len(shown), "ellipsoids", voxel), tracks=tracks)


def _thinned(count: int, kind: str, voxel: float | None) -> str:
    return "map of the drive" if voxel is None else f"map of the drive, {count:,} {kind}; drawn: one per voxel of {voxel:.2g} m"


def _data_of(run: OdometryRun) -> tuple[Any, str]:
    """The scans of a run, or None and the reason if they cannot be opened."""
    where = Path(run.data["path"])
    try:
        # Runs before 0.1 use `near`.
        options = {"min_range" if name == "near" else name: value for name, value in dict(run.data["options"]).items()}
        return open_data(where, run.data["dataset"], options), ""
    except (PoliError, OSError, TypeError, ValueError) as error:  # config.json may hold arbitrary options
        return None, f"{run.folder}: showing only the path; its scans cannot be opened ({error})"
