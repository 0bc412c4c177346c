"""Show panels or a series of scans in rerun, live or as a recording (.rrd). Needs the extra `view`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.files import quaternions
from poli.errors import MissingExtra, PoliError
from poli.io.atomic import atomic_path
from poli.viewer.content import Moment
from poli.viewer.panel import Panel, Track
from poli.viewer.render import normal_colors

_PLAIN = (0.62, 0.66, 0.70)


def record(
    path: Path | None, moments: Iterator[Moment] | None, tracks: Sequence[Track], panels: Callable[[], list[Panel]], sigma: float
) -> int:
    """Write a recording atomically, or without a path start a viewer. Shows scans in order, or panels if there are none.

    Returns the number of scans.
    """
    try:
        import rerun as rr
    except ImportError:
        raise MissingExtra("rerun's viewer", "view") from None
    stream = rr.RecordingStream("poli view")
    with nullcontext() if path is None else atomic_path(path) as temporary:
        try:
            stream.spawn() if temporary is None else stream.save(temporary)
        except (RuntimeError, OSError) as error:
            if path is not None:
                raise
            raise PoliError(f"the rerun viewer does not start: {error}; write a recording instead with --out NAME.rrd") from None
        if moments is None:
            _log_panels(rr, stream, panels(), sigma)
            count = 0
        else:
            count = _log_moments(rr, stream, moments, tracks, sigma)
        stream.flush()
        if path is not None:
            stream.disconnect()  # closes the file
    return count


def _log_panels(rr: ModuleType, stream: Any, panels: Sequence[Panel], sigma: float) -> None:
    """Log each panel to a separate view, side by side."""
    import rerun.blueprint as rrb

    views = []
    for i, panel in enumerate(panels):
        root = f"/panel_{i}_{_plain(panel.name)}"
        views.append(rrb.Spatial3DView(origin=root, name=panel.name))
        stream.log(root, rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        normals, colors = panel.place_normals, panel.colors
        if panel.field is not None:
            own = colors if panel.shows_means else None
            stream.log(f"{root}/ellipsoids", _ellipsoids(rr, panel.field, sigma * panel.sigma_scale, own), static=True)
        if len(panel.places):
            if colors is None:
                colors = np.array([_PLAIN]) if normals is None else normal_colors(normals)
            stream.log(f"{root}/points", rr.Points3D(panel.places, colors=_bytes(colors)), static=True)
        _log_tracks(rr, stream, root, panel.tracks)
    stream.send_blueprint(rrb.Blueprint(rrb.Grid(*views)))


def _log_moments(rr: ModuleType, stream: Any, moments: Iterator[Moment], tracks: Sequence[Track], sigma: float) -> int:
    """Log scans along the timeline `scan`, and along `time` if they have stamps. Returns their number."""
    stream.log("/world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    _log_tracks(rr, stream, "/world", tracks)
    count = 0
    for moment in moments:
        stream.set_time("scan", sequence=moment.number)
        if moment.scan.stamp is not None:
            stream.set_time("time", timestamp=np.datetime64(moment.scan.stamp, "ns"))
        if moment.T_world_scan is not None:
            T = moment.T_world_scan
            stream.log("/world/scan", rr.Transform3D(translation=T[:3, 3], mat3x3=T[:3, :3]))
        stream.log("/world/scan/points", rr.Points3D(moment.scan.points, colors=_bytes(np.array([_PLAIN]))))
        if moment.field is not None:
            stream.log("/world/scan/ellipsoids", _ellipsoids(rr, moment.field, sigma))
        count += 1
    return count


def _log_tracks(rr: ModuleType, stream: Any, root: str, tracks: Sequence[Track]) -> None:
    for i, track in enumerate(tracks):
        colors = None if track.color is None else _bytes(np.array([track.color]))
        strips = rr.LineStrips3D([track.positions], colors=colors)
        stream.log(f"{root}/tracks/{i}_{_plain(track.name)}", strips, static=True)


def _ellipsoids(rr: ModuleType, field: Ellipsoids, sigma: float, colors: np.ndarray | None = None) -> Any:
    return rr.Ellipsoids3D(
        centers=field.means,
        half_sizes=sigma * field.scales,
        quaternions=quaternions(field.axes)[:, [1, 2, 3, 0]],  # x, y, z, w
        colors=_bytes(normal_colors(field.normals) if colors is None else colors),
        fill_mode="solid",
    )


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name)


def _bytes(colors: np.ndarray) -> np.ndarray:
    return np.rint(255.0 * colors).astype(np.uint8)
