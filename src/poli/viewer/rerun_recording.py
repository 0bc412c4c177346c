"""Show panels in rerun, live or as a recording (.rrd). Needs the extra `view`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from poli.viewer.render import calm_normal_colors

_PLAIN = (0.62, 0.66, 0.70)


@contextmanager
def recording(path: Path | None) -> Iterator[Any]:
    """A rerun stream: to a file, written atomically, or without a path to a viewer that it starts."""
    rr = _rerun()
    stream = rr.RecordingStream("poli view")
    if path is None:
        try:
            stream.spawn()
        except (RuntimeError, OSError) as error:
            raise PoliError(f"the rerun viewer does not start: {error}; write a recording instead with --out NAME.rrd") from None
        yield stream
        stream.flush()
        return
    with atomic_path(path) as temporary:
        stream.save(temporary)
        yield stream
        stream.flush()
        stream.disconnect()


def log_panels(stream: Any, panels: Sequence[Panel], sigma: float) -> None:
    """Log each panel to a separate view, side by side."""
    rr = _rerun()
    import rerun.blueprint as rrb

    views = []
    for i, panel in enumerate(panels):
        root = f"/panel_{i}_{re.sub(r'[^A-Za-z0-9]+', '_', panel.name)}"
        views.append(rrb.Spatial3DView(origin=root, name=panel.name))
        stream.log(root, rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        if panel.field is not None:
            colors = panel.colors if panel.shows_means else None
            stream.log(f"{root}/ellipsoids", _ellipsoids(rr, panel.field, sigma * panel.sigma_scale, colors), static=True)
        if len(panel.places):
            stream.log(f"{root}/points", rr.Points3D(panel.places, colors=_bytes(_point_colors(panel))), static=True)
        _log_tracks(rr, stream, root, panel.tracks)
    stream.send_blueprint(rrb.Blueprint(rrb.Grid(*views)))


def log_series(stream: Any, series: Iterable[Moment], tracks: Sequence[Track], sigma: float) -> int:
    """Log scans along the timeline `scan`, and along `time` if they have stamps. Returns their number."""
    rr = _rerun()
    stream.log("/world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    _log_tracks(rr, stream, "/world", tracks)
    count = 0
    for moment in series:
        stream.set_time("scan", sequence=moment.number)
        if moment.stamp is not None:
            stream.set_time("time", timestamp=np.datetime64(moment.stamp, "ns"))
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
        name = re.sub(r"[^A-Za-z0-9]+", "_", track.name)
        stream.log(f"{root}/tracks/{i}_{name}", rr.LineStrips3D([track.positions], colors=colors), static=True)


def _ellipsoids(rr: ModuleType, field: Ellipsoids, sigma: float, colors: np.ndarray | None = None) -> Any:
    turns = quaternions(field.axes)  # (N, 4) w, x, y, z
    return rr.Ellipsoids3D(
        centers=field.means,
        half_sizes=sigma * field.scales,
        quaternions=turns[:, [1, 2, 3, 0]],
        colors=_bytes(calm_normal_colors(field.normals) if colors is None else colors),
        fill_mode="solid",
    )


def _point_colors(panel: Panel) -> np.ndarray:  # (N, 3) or (1, 3)
    if panel.colors is not None:
        return panel.colors
    normals = panel.place_normals
    return np.array([_PLAIN]) if normals is None else calm_normal_colors(normals)


def _bytes(colors: np.ndarray) -> np.ndarray:
    return np.rint(255.0 * colors).astype(np.uint8)


def _rerun() -> ModuleType:
    try:
        import rerun
    except ImportError:
        raise MissingExtra("rerun's viewer", "view") from None
    return rerun
