"""Detect the kind of data given to `poli view`, and prepare what to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poli.cli.data_options import open_data
from poli.cli.output import busy, say, track
from poli.cli.scan_files import above, is_pipe, map_offset, naming, offset_text, read_scan, say_offset, shift, without_offset
from poli.errors import FormatError, InputError, PoliError

# --- Two clouds in one page of `poli view`: a registered pair, or a densified scan with its original.


if TYPE_CHECKING:
    from poli.viewer.content import Estimates

_POSE_NUMBERS = (12, 16)


def overlay_subject(source: Path, target: Path, pose: Path | None, how: Estimates) -> Subject:
    """Both clouds in the frame of the second; `pose` is T_target_source, as `poli register` writes it."""
    from poli.viewer.content import merged_panels

    if is_pipe(source) and is_pipe(target):
        raise InputError("-: standard input holds one cloud; give the other as a file")
    T = np.eye(4) if pose is None else read_pose(pose)
    names, paths = _names(source, target), (source, target)
    clouds, thin, fields = [], [], []
    offset = None
    with busy(f"ellipsoids of {source} and {target}"):
        for path, move in zip(paths, (T, np.eye(4)), strict=True):
            with naming(path):
                scan = read_scan(path)
                offset = map_offset(scan)
                say_offset(path, scan, offset, "centered at {offset}; the page shows the original coordinates")
                centered = without_offset(scan, offset)
                cloud = how.cloud(centered, str(path))
                place = move if offset is None else move @ shift(offset)
                clouds.append(centered.transform(place))
                thin.append(cloud)
                fields.append(how.field(cloud, above(offset), merged=offset is not None).transform(place))
    shown = merged_panels(clouds, thin, fields, names, how)
    moved = f"{names[0]} moved by {pose.name}" if pose is not None else "both in their own coordinates"
    return Subject(f"{names[0]} and {names[1]}", moved, lambda: shown, color="layer")


def densified_subject(dense: Path, original: Path) -> Subject:
    """A densified scan with its samples in another color than its originals."""
    from poli.viewer.content import densified_panels

    with busy(f"reading {dense}"):
        clouds = read_scan(dense), read_scan(original)
    shown = densified_panels(*clouds, (str(dense), str(original)))
    return Subject(dense.name, f"{len(clouds[0]):,} points", lambda: shown, color="layer")


def read_pose(path: Path, option: str = "--pose") -> np.ndarray:  # (4, 4)
    """Read the pose that `option` names: a 4x4 matrix as `poli register` writes it, or the 12 numbers of a KITTI pose."""
    from poli.se3 import check_pose

    if not path.is_file():
        raise FormatError(f"{option} {path}: no such file")
    try:
        numbers = np.array(path.read_text(encoding="utf-8").replace(",", " ").split(), dtype=np.float64)
    except (ValueError, UnicodeDecodeError):
        raise FormatError(f"{option} {path}: not a table of numbers; expected the 4x4 matrix of `poli register --out`") from None
    if len(numbers) not in _POSE_NUMBERS:
        raise FormatError(f"{option} {path}: {len(numbers)} numbers; expected a 4x4 or 3x4 matrix")
    T = np.eye(4)
    T.reshape(-1)[: len(numbers)] = numbers
    return check_pose(T, f"{option} {path}")


def _names(source: Path, target: Path) -> tuple[str, str]:
    """Short names of two files that differ: with their folders if the files have the same name."""
    names = tuple("standard input" if is_pipe(path) else path.name for path in (source, target))
    if names[0] != names[1]:
        return names[0], names[1]
    longer = tuple(f"{path.resolve().parent.name}/{path.name}" for path in (source, target))
    return longer if longer[0] != longer[1] else (f"{names[0]} (1)", f"{names[1]} (2)")  # type: ignore[return-value]


# --- Scans in order for `poli view`: folders, datasets, bags and odometry runs, as a timeline and, with known poses, as one world.


if TYPE_CHECKING:
    import numpy as np

    from poli.ellipsoids import Ellipsoids
    from poli.io.datasets import Dataset
    from poli.scan import Scan
    from poli.viewer.content import Estimates, Moment
    from poli.viewer.panel import Panel, Track
    from poli.viewer.plots import OdometryRun

_SIDE_BY_SIDE = 4  # scans without known poses
_TOGETHER = 50  # scans fused into a world
_TIMELINE = 200  # scans of a timeline


def scans_subject(data: Dataset, how: Estimates, amount: Amount) -> Subject:
    from poli.viewer.content import fused_world, moments, spread
    from poli.viewer.panel import Panel, Track

    count = len(data)
    if not count:
        raise InputError(f"{data.name}: no scans to show")
    remarks = (f"{data.name}: {len(data.skipped)} scans are skipped by the dataset",) if data.skipped else ()
    poses = data.poses
    tracks = () if poses is None else (Track(poses[:, :3, 3], "sensor path"),)

    def recorded(most: int) -> Iterator[Moment]:
        rows = spread(count, most if amount.scans is None else max(amount.scans, 1))
        return _watched(moments(data, rows, poses, how), len(rows))

    @cache
    def panels() -> list[Panel]:
        if poses is None and amount.side_by_side:
            return stills()
        if poses is None:
            timeline = _timeline(data, None, how, _shown(amount, count))
            if timeline is None:
                raise InputError(f"{data.name}: {_why_empty(data)}")
            return [timeline]
        world = world_panel()
        return [world] if amount.scans == 0 else [_with_frames(world, _timeline(data, poses, how, _shown(amount, count)))]

    @cache
    def world_panel() -> Panel:
        world, fused = fused_world(recorded(_TOGETHER), how)
        return Panel("World", field=world, caption=f"{fused} of {count} scans, fused; {how.caption}", tracks=tracks)

    @cache
    def stills() -> list[Panel]:
        if poses is not None:
            return [world_panel()]
        found = [_moment_panel(moment, how) for moment in recorded(_SIDE_BY_SIDE) if len(moment.scan)]
        if not found:
            raise InputError(f"{data.name}: all scans that were read are empty")
        return found

    return Subject(data.name, f"{count:,} scans", panels, remarks, lambda: recorded(count), tracks, pictures=stills)


def _why_empty(data: Dataset) -> str:
    from poli.cli.scan_files import map_offset

    if map_offset(data[0]) is not None:
        return "scans in map coordinates; a timeline needs them in the sensor's frame. Give one of the files to see it"
    return "all scans that were read are empty"


def _shown(amount: Amount, available: int) -> int:
    return min(available, _TIMELINE if amount.scans is None else amount.scans)


def _timeline(
    data: Dataset, poses: np.ndarray | None, how: Estimates, most: int, first: int = 0, available: int = 0
) -> Panel | None:
    """A panel of at most `most` scans, evenly spaced; empty scans are left out. None if all are empty."""
    from poli.viewer.content import frames_of, moments, spread, thinning_for
    from poli.viewer.panel import Panel

    count = available or len(data)
    rows = spread(count, most)
    thinning = thinning_for(data, rows, how, first)
    series = _watched(moments(data, rows, poses, thinning.how, first), len(rows), "timeline")
    frames = tuple(frame for frame in frames_of(series, thinning, poses is not None) if len(frame.places))
    caption = thinning.caption(len(frames)) if len(rows) == count else f"{thinning.caption(len(frames))}; {count:,} scans in total"
    return Panel("Scans", caption=caption, frames=frames, frames_share_world=poses is not None) if frames else None


def _with_frames(panel: Panel, timeline: Panel | None) -> Panel:
    if timeline is None:
        return panel
    return replace(panel, frames=timeline.frames, caption=f"{panel.caption}. {timeline.caption.capitalize()}")


def _watched(series: Iterator[Moment], count: int, what: str = "ellipsoids") -> Iterator[Moment]:
    yield from track(series, what, count)


def _moment_panel(moment: Moment, how: Estimates) -> Panel:
    from poli.viewer.panel import Panel, scalars_of

    if moment.field is None or moment.cloud is None:
        return Panel(f"Scan {moment.number}", points=moment.scan, caption="too few returns for ellipsoids")
    return Panel(f"Scan {moment.number}", field=moment.field, caption=how.caption, scalars=scalars_of(moment.cloud))


# --- a run of odometry


def run_subject(folder: Path, how: Estimates, amount: Amount) -> Subject:
    from poli.scan import Scan
    from poli.viewer.content import fused_world, moments, spread
    from poli.viewer.panel import Panel
    from poli.viewer.plots import read_odometry_run

    run = read_odometry_run(folder)
    if how.compare:
        raise InputError("--compare: only one scan can be compared; give the path of a scan file")
    count, first = len(run.poses), run.data["first"]
    note = f"{count:,} scans, {run.length:.1f} m"
    data, missing = _data_of(run)
    available = 0 if data is None else max(0, min(count, len(data) - first))

    def recorded(most: int) -> Iterator[Moment]:
        assert data is not None
        rows = spread(available, most if amount.scans is None else max(amount.scans, 1))
        return _watched(moments(data, rows, run.poses, how, first), len(rows))

    @cache
    def still() -> Panel:
        if run.map is not None:
            return _map_panel(run.map, run.tracks)
        if not available:
            return Panel("Path", caption="the scans are no longer available", tracks=run.tracks)
        world, fused = fused_world(recorded(_TOGETHER), how)
        return Panel("World", field=world, caption=f"{fused} of {count} scans, fused; {how.caption}", tracks=run.tracks)

    @cache
    def panels() -> list[Panel]:
        if data is None or not available or amount.scans == 0:
            return [still()]
        try:
            timeline = _timeline(data, run.poses, how, _shown(amount, available), first, available)
        except PoliError as error:
            if run.map is None:
                raise
            say(f"{folder}: shown without a timeline; its scans cannot be read ({error})", to_stderr=True)
            return [still()]
        return [_with_frames(still(), timeline)]

    shown: Callable[[], Iterator[Moment]] | None = (lambda: recorded(available)) if available else None
    missing = missing if run.map is None or amount.series or not missing else f"{missing}; the map is shown without a timeline"
    remarks = (*run.remarks, missing) if missing else run.remarks
    color = "height" if isinstance(run.map, Scan) else "normal"
    return Subject(run.data["name"], note, panels, remarks, shown, run.tracks, color, lambda: [still()])


def _map_panel(shown: Ellipsoids | Scan, tracks: tuple[Track, ...]) -> Panel:
    from poli.scan import Scan
    from poli.viewer.content import thin_field, thin_points
    from poli.viewer.page import MOST_ELLIPSOIDS, MOST_POINTS
    from poli.viewer.panel import Panel

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
        return open_data(where, run.data["dataset"], dict(run.data["options"])), ""
    except (PoliError, OSError, TypeError, ValueError) as error:  # config.json may hold arbitrary options
        shown = "the path" if run.map is None else "the map"
        return None, f"{run.folder}: showing only {shown}; its scans cannot be opened ({error})"


if TYPE_CHECKING:
    from poli.viewer.content import Estimates, Moment
    from poli.viewer.panel import Panel, Track


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
    from poli.io.datasets.files import scan_ending
    from poli.viewer.plots import is_odometry_run

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
    from poli.ellipsoids.files import is_splat, splat_of_records
    from poli.io.limits import read_npz_arrays
    from poli.io.ply import read_ply_element
    from poli.viewer.panel import Panel

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
    from poli.viewer.content import scan_panels

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
