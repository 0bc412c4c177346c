"""Scans in order for `poli view`: folders, datasets, bags and odometry runs, as a timeline and, with known poses, as one world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poli.cli.data_options import open_data
from poli.cli.output import say, track
from poli.cli.view_subject import Amount, Subject
from poli.errors import InputError, PoliError

if TYPE_CHECKING:
    import numpy as np

    from poli.data.datasets import Dataset
    from poli.ellipsoids import Ellipsoids
    from poli.scan import Scan
    from poli.show.estimated import Estimates
    from poli.show.odometry_run import OdometryRun
    from poli.show.panel import Panel, Track
    from poli.show.world import Moment

_SIDE_BY_SIDE = 4  # scans without known poses
_TOGETHER = 50  # scans fused into a world
_TIMELINE = 200  # scans of a timeline


def scans_subject(data: Dataset, how: Estimates, amount: Amount) -> Subject:
    from poli.show.panel import Panel, Track
    from poli.show.world import fused_world, moments, spread

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
    from poli.cli.map_coordinates import map_offset

    if map_offset(data[0]) is not None:
        return "scans in map coordinates; a timeline needs them in the sensor's frame. Give one of the files to see it"
    return "all scans that were read are empty"


def _shown(amount: Amount, available: int) -> int:
    return min(available, _TIMELINE if amount.scans is None else amount.scans)


def _timeline(
    data: Dataset, poses: np.ndarray | None, how: Estimates, most: int, first: int = 0, available: int = 0
) -> Panel | None:
    """A panel of at most `most` scans, evenly spaced; empty scans are left out. None if all are empty."""
    from poli.show.panel import Panel
    from poli.show.timeline import frames_of, thinning_for
    from poli.show.world import moments, spread

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
    from poli.show.panel import Panel
    from poli.show.scalars import scalars_of

    if moment.field is None or moment.cloud is None:
        return Panel(f"Scan {moment.number}", points=moment.scan, caption="too few returns for ellipsoids")
    return Panel(f"Scan {moment.number}", field=moment.field, caption=how.caption, scalars=scalars_of(moment.cloud))


# --- a run of odometry


def run_subject(folder: Path, how: Estimates, amount: Amount) -> Subject:
    from poli.scan import Scan
    from poli.show.odometry_run import read_odometry_run
    from poli.show.panel import Panel
    from poli.show.world import fused_world, moments, spread

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
        return open_data(where, run.data["dataset"], dict(run.data["options"])), ""
    except (PoliError, OSError, TypeError, ValueError) as error:  # config.json may hold arbitrary options
        shown = "the path" if run.map is None else "the map"
        return None, f"{run.folder}: showing only {shown}; its scans cannot be opened ({error})"
