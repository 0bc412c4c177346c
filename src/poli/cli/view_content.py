"""Detect the kind of data given to `poli view`, and prepare what to show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poli.cli.inputs import above, centered, is_pipe, map_offset, naming, offset_text, open_data, read_scan, shift
from poli.cli.output import busy, say, track
from poli.errors import FormatError, InputError, PoliError

if TYPE_CHECKING:
    from poli.ellipsoids import Ellipsoids
    from poli.io.datasets import Dataset
    from poli.scan import Scan
    from poli.viewer.content import Estimates, Moment, Series
    from poli.viewer.panel import Panel, Track

_SIDE_BY_SIDE = 4  # scans without known poses
_TOGETHER = 50  # scans fused into a world
_TIMELINE = 200  # scans of a timeline
_CENTERED = "centered at {offset}; the page shows the original coordinates"


@dataclass(frozen=True, eq=False)
class Subject:
    """What to show. That of scans in order is computed on demand: a recording needs no panels, a picture no timeline."""

    name: str
    note: str
    given: tuple[Panel, ...] = ()  # of one file or of two
    color: str = "normal"  # of the page, unless the user chooses
    remarks: tuple[str, ...] = ()
    series: Series | None = None  # None: a file, or a run whose scans are no longer available
    tracks: tuple[Track, ...] = ()
    map: Ellipsoids | Scan | None = None
    scans: int | None = None  # at most; 0: no timeline; None: the default of each kind of output
    side_by_side: bool = False  # without poses: in panels instead of a timeline

    def panels(self) -> list[Panel]:
        """The panels of a page: the map or world with its timeline; without poses, only the timeline."""
        if self.series is None or self.scans == 0 or (self.series.poses is None and self.side_by_side):
            return self.stills
        try:
            timeline = self._timeline(self.series)
        except PoliError as error:
            if self.map is None:
                raise
            say(f"{self.name}: shown without a timeline; its scans cannot be read ({error})", to_stderr=True)
            return self.stills
        if self.series.poses is None:
            return [timeline]
        still = self.stills[0]
        return [
            still
            if not timeline.frames
            else replace(still, frames=timeline.frames, caption=f"{still.caption}. {timeline.caption.capitalize()}")
        ]

    @cached_property
    def stills(self) -> list[Panel]:
        """The panels without a timeline: those given, the map, the scans fused by their poses, or some scans side by side."""
        from poli.viewer.content import fused_world
        from poli.viewer.panel import Panel, scalars_of

        if self.given:
            return list(self.given)
        if self.map is not None:
            return [_map_panel(self.map, self.tracks)]
        if self.series is None:
            return [Panel("Path", caption="the scans are no longer available", tracks=self.tracks)]
        how, count = self.series.how, len(self.series)
        if self.series.poses is not None:
            world, fused = fused_world(self._watched(self.series, _TOGETHER), how.size)
            return [Panel("World", field=world, caption=f"{fused} of {count} scans, fused; {how.caption}", tracks=self.tracks)]
        panels = []
        for moment in self._watched(self.series, _SIDE_BY_SIDE):
            name = f"Scan {moment.number}"
            if moment.field is not None:
                panels.append(Panel(name, field=moment.field, caption=how.caption, scalars=scalars_of(moment.cloud)))
            elif len(moment.scan):
                panels.append(Panel(name, moment.scan, caption="too few returns for ellipsoids"))
        if not panels:
            raise InputError(f"{self.name}: all scans that were read are empty")
        return panels

    def moments(self) -> Iterator[Moment] | None:
        """The scans of a recording: all, or as many as the user asked for. None without a series."""
        return None if self.series is None else self._watched(self.series, len(self.series))

    def _timeline(self, series: Series) -> Panel:
        """A panel of scans, evenly spaced; empty if the poses are known and all scans are empty."""
        from poli.viewer.content import FARTHEST, frames_of, spread
        from poli.viewer.panel import Panel

        rows = spread(len(series), min(len(series), _TIMELINE if self.scans is None else self.scans))
        thin, voxel = series.thinned(rows)
        frames = tuple(frames_of(track(thin.moments(rows), "timeline", len(rows)), voxel))
        if not frames and series.poses is None:
            mapped = map_offset(series.data[0]) is not None
            why = "scans in map coordinates; a timeline needs them in the sensor's frame. Give one of the files to see it"
            raise InputError(f"{self.name}: {why if mapped else 'all scans that were read are empty'}")
        points = f"returns within {FARTHEST:g} m" if voxel is None else f"one return per voxel of {voxel:g} m"
        caption = f"timeline of {len(frames):,} scans: {points}, ellipsoids of {thin.how.caption}"
        if len(rows) < len(series):
            caption += f"; {len(series):,} scans in total"
        return Panel("Scans", caption=caption, tracks=self.tracks, frames=frames, frames_share_world=series.poses is not None)

    def _watched(self, series: Series, most: int) -> Iterator[Moment]:
        from poli.viewer.content import spread

        rows = spread(len(series), most if self.scans is None else max(self.scans, 1))
        return track(series.moments(rows), "ellipsoids", len(rows))


def subject_of(
    data: Path, dataset: str, options: dict[str, Any], how: Estimates, scans: int | None = None, side_by_side: bool = False
) -> Subject:
    """What to show of a file, a folder, a dataset or an odometry run."""
    from poli.io.datasets.files import scan_ending
    from poli.viewer.plots import is_odometry_run

    if is_pipe(data):
        return _scan_file(data, how)
    if not data.exists():
        raise FormatError(f"{data}: no such file or folder")
    if data.is_file() and dataset == "auto":
        if scan_ending(data) or data.suffix.lower() in (".xyz", ".csv", ".txt"):
            return _file(data, how)
        if data.suffix not in (".bag", ".mcap", ".db3"):
            raise FormatError(f"{data}: not a known ending of a scan or ellipsoid file; see `poli view --help`")
    if how.compare:
        raise InputError("--compare: only one scan can be compared; give the path of a scan file")
    if data.is_dir() and is_odometry_run(data):
        return _run(data, how, scans)
    return _scans(open_data(data, dataset, options), how, scans, side_by_side)


def _scans(data: Dataset, how: Estimates, scans: int | None, side_by_side: bool) -> Subject:
    from poli.viewer.content import Series
    from poli.viewer.panel import Track

    if not len(data):
        raise InputError(f"{data.name}: no scans to show")
    remarks = (f"{data.name}: {len(data.skipped)} scans are skipped by the dataset",) if data.skipped else ()
    tracks = () if data.poses is None else (Track(data.poses[:, :3, 3], "sensor path"),)
    series = Series(data, how, data.poses)
    return Subject(data.name, f"{len(data):,} scans", (), "normal", remarks, series, tracks, None, scans, side_by_side)


def _run(folder: Path, how: Estimates, scans: int | None) -> Subject:
    """An odometry run: its map, its path and its scans, as far as they are still there."""
    from poli.scan import Scan
    from poli.viewer.content import Series
    from poli.viewer.plots import read_odometry_run

    run = read_odometry_run(folder)
    series, remarks = None, run.remarks
    try:
        opened = open_data(Path(run.data["path"]), run.data["dataset"], dict(run.data["options"]))
        series = Series(opened, how, run.poses, run.data["first"])
    except (PoliError, OSError, TypeError, ValueError) as error:  # config.json may hold arbitrary options
        only = "the path" if run.map is None else "the map"
        remarks += (f"{folder}: showing only {only}, without a timeline; its scans cannot be opened ({error})",)
    length = float(np.linalg.norm(np.diff(run.poses[:, :3, 3], axis=0), axis=1).sum())
    note, color = f"{len(run.poses):,} scans, {length:.1f} m", "height" if isinstance(run.map, Scan) else "normal"
    series = series if series is not None and len(series) else None
    return Subject(run.data["name"], note, (), color, remarks, series, run.tracks, run.map, scans)


def _map_panel(shown: Ellipsoids | Scan, tracks: tuple[Track, ...]) -> Panel:
    from poli.scan import Scan
    from poli.viewer import page
    from poli.viewer.content import thin_field, thin_points
    from poli.viewer.panel import Panel

    points, field = None, None
    if isinstance(shown, Scan):
        points, voxel = thin_points(shown, page.MOST_POINTS)
    else:
        field, voxel = thin_field(shown, page.MOST_ELLIPSOIDS)
    kind = "ellipsoids" if points is None else "points"
    thinned = "" if voxel is None else f", {len(shown):,} {kind}; drawn: one per voxel of {voxel:.2g} m"
    return Panel("Map", points, field=field, tracks=tracks, caption=f"map of the drive{thinned}")


# --- One file, or two clouds: a registered pair, or a densified scan with its original.


def _file(path: Path, how: Estimates) -> Subject:
    from poli.ellipsoids import Ellipsoids
    from poli.io.limits import read_npz_arrays
    from poli.io.ply import read_ply_element
    from poli.viewer.panel import Panel

    names: set[str] = set()
    if path.suffix.lower() == ".npz":
        names = set(read_npz_arrays(path))
    elif path.suffix.lower() == ".ply" and path.stat().st_size:
        names = set(read_ply_element(path).dtype.names or ())
    if not ({"means", "covariances"} <= names or "cov_xx" in names):
        return _scan_file(path, how)
    if how.compare:
        raise InputError(f"--compare: {path} holds ellipsoids, not a scan; give the scan instead")
    field = Ellipsoids.load(path)
    if not len(field):
        raise FormatError(f"{path}: no ellipsoids in this file")
    viewpoint = field.viewpoint if field.viewpoint.ndim == 1 else None
    return Subject(path.name, "", (Panel("Ellipsoids", field=field, viewpoint=viewpoint),))


def _scan_file(path: Path, how: Estimates) -> Subject:
    from poli.viewer.content import scan_panels

    with busy(f"ellipsoids of {path}"), naming(path):
        scan, offset = centered(path, read_scan(path), _CENTERED)
        place = None if offset is None else shift(offset)
        panels = scan_panels(scan, how, str(path), above(offset), place)
    note = f"{len(scan):,} returns"
    if offset is not None:
        note += f"; map coordinates, centered at {offset_text(offset)} m for computing and drawing"
    return Subject("scan" if is_pipe(path) else path.name, note, tuple(panels))


def overlay_subject(source: Path, target: Path, pose: Path | None, how: Estimates) -> Subject:
    """Both clouds in the frame of the second; `pose` is T_target_source, as `poli register` writes it."""
    from poli.viewer.content import merged_panels

    if is_pipe(source) and is_pipe(target):
        raise InputError("-: standard input holds one cloud; give the other as a file")
    T = np.eye(4) if pose is None else _read_pose(pose)
    names = ["standard input" if is_pipe(path) else path.name for path in (source, target)]
    if names[0] == names[1]:
        names = [f"{path} ({number})" for number, path in enumerate((source, target), 1)]
    clouds, thin, fields = [], [], []
    with busy(f"ellipsoids of {source} and {target}"):
        for path, move in ((source, T), (target, np.eye(4))):
            with naming(path):
                scan, offset = centered(path, read_scan(path), _CENTERED)
                place = move if offset is None else move @ shift(offset)
                clouds.append(scan.transform(place))
                thin.append(how.cloud(scan, str(path)))
                fields.append(how.field(thin[-1], above(offset)).transform(place))
    moved = f"{names[0]} moved by {pose.name}" if pose is not None else "both in their own coordinates"
    panels = merged_panels(clouds, thin, fields, names, how)
    return Subject(f"{names[0]} and {names[1]}", moved, tuple(panels), "layer")


def densified_subject(dense: Path, original: Path) -> Subject:
    """A densified scan with its samples in another color than its originals."""
    from poli.viewer.content import densified_panels

    with busy(f"reading {dense}"):
        clouds = read_scan(dense), read_scan(original)
    panels = densified_panels(*clouds, (str(dense), str(original)))
    return Subject(dense.name, f"{len(clouds[0]):,} points", tuple(panels), "layer")


def _read_pose(path: Path) -> np.ndarray:  # (4, 4)
    """Read a 4x4 matrix as `poli register` writes it, or the 12 numbers of a KITTI pose."""
    from poli.se3 import check_pose

    if not path.is_file():
        raise FormatError(f"--pose {path}: no such file")
    T = np.eye(4)
    try:
        numbers = np.array(path.read_text(encoding="utf-8").replace(",", " ").split(), dtype=np.float64)
        T[: 3 if len(numbers) == 12 else 4] = numbers.reshape(-1, 4)
    except ValueError:  # also if it is not UTF-8
        raise FormatError(f"--pose {path}: not a 4x4 or 3x4 matrix; expected a file of `poli register --out`") from None
    return check_pose(T, f"--pose {path}")
