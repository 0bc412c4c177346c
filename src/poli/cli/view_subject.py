"""Detect the kind of data given to `poli view`, and prepare what to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poli.cli.data_options import open_data
from poli.cli.map_coordinates import above, map_offset, offset_text, say_offset, shift, without_offset
from poli.cli.output import busy
from poli.cli.scan_files import is_pipe, naming, read_scan
from poli.errors import FormatError, InputError

if TYPE_CHECKING:
    from poli.show.estimated import Estimates
    from poli.show.panel import Panel, Track
    from poli.show.world import Moment


@dataclass(frozen=True, eq=False)
class Subject:
    name: str
    note: str
    panels: Callable[[], list[Panel]]  # of the page; computed on demand: a series does not need them
    remarks: tuple[str, ...] = ()
    series: Callable[[], Iterator[Moment]] | None = None
    tracks: tuple[Track, ...] = ()
    color: str = "normal"  # of the page, unless the user chooses
    pictures: Callable[[], list[Panel]] | None = None  # panels of a picture, if it differs: a picture has no timeline

    @property
    def stills(self) -> list[Panel]:
        """The panels without timelines."""
        return self.panels() if self.pictures is None else self.pictures()


@dataclass(frozen=True)
class Amount:
    """How many scans of a series to show."""

    scans: int | None = None  # None: the default of the kind of data
    series: bool = False  # for rerun, which shows all of them
    side_by_side: bool = False  # in panels instead of a timeline


def subject_of(data: Path, dataset: str, options: dict[str, Any], how: Estimates, amount: Amount | None = None) -> Subject:
    from poli.cli.view_series import run_subject, scans_subject
    from poli.data.datasets.folder import scan_ending
    from poli.show.odometry_run import is_odometry_run

    amount = amount or Amount()
    if is_pipe(data):
        return _scan_file(data, how)
    if not data.exists():
        raise FormatError(f"{data}: no such file or folder")
    if data.is_dir() and is_odometry_run(data):
        return run_subject(data, how, amount)
    is_scan = data.is_file() and (scan_ending(data) or data.suffix.lower() in (".xyz", ".csv", ".txt"))
    if is_scan and dataset == "auto":
        return _file(data, how)
    if data.is_file() and dataset == "auto" and data.suffix not in (".bag", ".mcap", ".db3"):
        raise FormatError(f"{data}: not a known ending of a scan or ellipsoid file; see `poli view --help`")
    if how.compare:
        raise InputError("--compare: only one scan can be compared; give the path of a scan file")
    return scans_subject(open_data(data, dataset, options), how, amount)


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
    viewpoint = field.viewpoint if field.viewpoint.ndim == 1 else None
    shown = [Panel("Ellipsoids", field=field, colors=colors, viewpoint=viewpoint)]
    return Subject(path.name, "", lambda: shown)


def _scan_file(path: Path, how: Estimates) -> Subject:
    from poli.show.estimated import scan_panels

    with busy(f"ellipsoids of {path}"), naming(path):
        scan = read_scan(path)
        offset = map_offset(scan)
        say_offset(path, scan, offset, "centered at {offset}; the page shows the original coordinates")
        place = None if offset is None else shift(offset)
        shown = scan_panels(without_offset(scan, offset), how, str(path), above(offset), place)
    note = f"{len(scan):,} returns"
    if offset is not None:
        note += f"; map coordinates, centered at {offset_text(offset)} m for computing and drawing"
    return Subject("scan" if is_pipe(path) else path.name, note, lambda: shown)
