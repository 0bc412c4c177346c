"""Rivals in LiDAR odometry: four scan-to-scan methods of small_gicp, and five systems that keep a map.

The scan-to-scan methods receive the same voxelized points and the same initial guess. Each is run with a few settings and
evaluated at its best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rivals.evalio_systems import CT_LOW_INERTIA, run_ct, run_loam, run_mad
from benchmarks.rivals.tracks import Run, Track, checked, from_first, moved_to_stamp, span, stamp_share
from poli.errors import InputError, MissingExtra
from poli.scan import Scan, ScanLike
from poli.threads import thread_count
from poli.voxels import voxel_downsample

PAIRWISE = ("ICP", "PLANE_ICP", "GICP", "VGICP")  # names in small_gicp, which silently returns the identity for any other name

# small_gicp stops at 20 steps, 1.7 mrad and 1 mm by default: too early to compare the costs.
_ITERATIONS, _SMALLEST_TURN, _SMALLEST_SHIFT = 50, 1e-4, 1e-4  # steps, radians, meters
_FIRST_GATE = 2.0  # meters: the first motion has no initial guess, so it is searched with a wide gate first
# Resolution and gate, meters. A point is matched with the voxel that contains it, so a gate only cuts the corners of large voxels.
_VGICP_SIZES = ((0.5, 1.0), (1.0, 0.5), (2.0, 1.0))
_FEWEST = 10  # points


@dataclass(frozen=True)
class PairwiseSettings:
    """Settings of small_gicp for aligning a scan to the previous one."""

    method: str  # one of `PAIRWISE`
    gate: float  # meters: maximum distance of a match
    neighbors: int = 20  # for normals and covariances; "ICP" has neither
    resolution: float = 1.0  # meters, of VGICP's voxels

    def __post_init__(self) -> None:
        if self.method not in PAIRWISE:
            raise InputError(f"method is {self.method!r}; expected one of {', '.join(PAIRWISE)}")
        if not self.gate > 0.0 or not self.resolution > 0.0:
            raise InputError(f"gate is {self.gate}, resolution {self.resolution}; both are lengths in meters, above 0")
        if self.neighbors < 5:
            raise InputError(f"neighbors is {self.neighbors}; small_gicp needs 5 or more for a covariance")

    @property
    def label(self) -> str:
        neighbors = "" if self.method == "ICP" else f", k {self.neighbors}"
        return f"gate {self.gate:g} m{neighbors}{f', voxels {self.resolution:g} m' if self.method == 'VGICP' else ''}"


def settings_grid(method: str, voxel: float) -> tuple[PairwiseSettings, ...]:  # meters
    """The settings to try for a method at this voxel size: at most six."""
    gates = sorted({0.5, 1.0, 3.0 * voxel})
    if method == "ICP":
        return tuple(PairwiseSettings(method, gate) for gate in sorted({*gates, 2.0}))
    if method == "VGICP":
        return tuple(PairwiseSettings(method, gate, k, size) for size, gate in _VGICP_SIZES for k in (10, 20))
    return tuple(PairwiseSettings(method, gate, k) for gate in gates for k in (10, 20))


def run_pairwise(scans: Iterable[ScanLike], voxel: float, settings: PairwiseSettings) -> Track:
    """Align each scan to the previous one, starting from the last motion; the first motion has no initial guess."""
    try:
        import small_gicp
    except ImportError:
        raise MissingExtra("comparing with small_gicp", "bench") from None
    threads = thread_count()
    poses, motion, before, seconds = [np.eye(4)], np.eye(4), None, []
    for number, raw in enumerate(checked(scans)):
        start = time.perf_counter()
        points = voxel_downsample(raw.points, voxel).points
        if len(points) < _FEWEST:
            raise InputError(f"scans[{number}] has {len(points)} voxels of {voxel} m; {_FEWEST} are needed, choose smaller voxels")
        here = _prepared(small_gicp, points, settings, threads)
        if before is not None:
            if number == 1:
                motion = _aligned(small_gicp, before, here, motion, _wide(settings), threads)
            motion = _aligned(small_gicp, before, here, motion, settings, threads)
            poses.append(poses[-1] @ motion)
        before = here
        seconds.append(time.perf_counter() - start)
    return Track(np.stack(poses), np.array(seconds))


def run_kiss(scans: Iterable[ScanLike], max_range: float | None = None) -> Track:  # meters
    """Run KISS-ICP with its defaults on the raw scans. `max_range` is the option its authors recommend to adapt it to a sensor:
    voxels are a hundredth of it."""
    try:
        from kiss_icp.config import load_config
        from kiss_icp.kiss_icp import KissICP
    except ImportError:
        raise MissingExtra("comparing with KISS-ICP", "bench") from None
    config = load_config(None)  # unlike a bare KISSConfig, this chooses the voxel size
    if max_range is not None:
        config.data.max_range, config.mapping.voxel_size = max_range, max_range / 100.0
    config.data.deskew = True  # its default; without point times, it has no effect
    config.registration.max_num_threads = thread_count()
    return _mapped(KissICP(config), scans, instant=1.0)


def run_genz(scans: Iterable[ScanLike], tuning: str | None = None) -> Track:
    """Run GenZ-ICP on the raw scans with its defaults, or with one of its authors' tunings ("outdoor", "kitti", ...).

    It uses all cores available to the process.
    """
    try:
        from genz_icp.config import load_config
        from genz_icp.genz_icp import GenZICP
    except ImportError:
        raise MissingExtra("comparing with GenZ-ICP", "bench") from None
    if tuning is not None and find_spec("yaml") is None:  # without it, GenZ-ICP ends the process
        raise MissingExtra("a tuning of GenZ-ICP (it reads them with PyYAML)", "bench")
    try:
        config = load_config(None if tuning is None else Path(f"{tuning}.yaml"))
    except FileNotFoundError:
        raise InputError(
            f"tuning is {tuning!r}; GenZ-ICP has 'outdoor', 'kitti', 'indoor' and others in its config/pretuned"
        ) from None
    config.data.deskew = True
    return _mapped(GenZICP(config), scans, instant=0.5)


@dataclass(frozen=True)
class Method:
    about: str
    voxelized: bool  # whether the voxel size matters; if not, one run is used for all sizes
    ways: Callable[[float], dict[str, Run]]  # voxel size in meters -> runs by setting; the best one counts
    # Runs by setting for drives of known surroundings, where the authors have tunings for them; none: all of `ways`.
    indoors: Mapping[str, Run] = field(default_factory=dict)
    outdoors: Mapping[str, Run] = field(default_factory=dict)


def _pairwise_ways(method: str, voxel: float) -> dict[str, Run]:
    return {s.label: partial(run_pairwise, voxel=voxel, settings=s) for s in settings_grid(method, voxel)}


METHODS: dict[str, Method] = {
    "ICP": Method("point to point, scan to scan (small_gicp)", True, partial(_pairwise_ways, "ICP")),
    "Plane ICP": Method("point to plane, scan to scan (small_gicp)", True, partial(_pairwise_ways, "PLANE_ICP")),
    "GICP": Method("plane to plane, scan to scan (small_gicp)", True, partial(_pairwise_ways, "GICP")),
    "VGICP": Method("plane to the voxels of the scan before (small_gicp)", True, partial(_pairwise_ways, "VGICP")),
    "KISS-ICP": Method(
        "point to point on a map, its defaults, raw scans",
        False,
        lambda _: {"defaults": run_kiss},
        {"defaults": run_kiss, "max_range 30 m": partial(run_kiss, max_range=30.0)},
    ),
    "GenZ-ICP": Method(
        "point to plane and point to point on a map, its defaults and its tuning for outdoors, raw scans",
        False,
        lambda _: {"defaults": run_genz, "outdoor": partial(run_genz, tuning="outdoor")},
        {"defaults": run_genz, "corridor": partial(run_genz, tuning="corridor")},  # the defaults are the tuning for indoors
        {"outdoor": partial(run_genz, tuning="outdoor")},
    ),
    "CT-ICP": Method(
        "point to plane on a map, with a motion within each scan (evalio), raw scans",
        False,
        lambda _: {"defaults": run_ct},
        {"defaults": run_ct, "low inertia": partial(run_ct, settings=CT_LOW_INERTIA)},
    ),
    "MAD-ICP": Method(
        "point to plane between trees of a few key frames (evalio), raw scans",
        False,
        lambda _: {"defaults": run_mad},
    ),
    "LOAM": Method(
        "edges and planes of the rings on the last scans (evalio), raw scans",
        False,
        lambda _: {"defaults": run_loam, "10 scans": partial(run_loam, scans_in_map=10)},
        {"10 scans": partial(run_loam, scans_in_map=10)},  # better than the defaults on the sequences tried
        {"10 scans": partial(run_loam, scans_in_map=10)},
    ),
}


def _shares(scan: Scan) -> np.ndarray:  # (N,)
    """Times of the points as fractions of the scan, from 0 to 1; empty without times."""
    if "time" not in scan.fields:
        return np.empty(0)
    first, last = span(scan)
    return (scan.fields["time"] - first) / (last - first)


def _wide(settings: PairwiseSettings) -> PairwiseSettings:
    """Settings for the first motion. VGICP only searches within its voxels, so GICP, with the same covariances, starts it."""
    method = "GICP" if settings.method == "VGICP" else settings.method
    return replace(settings, method=method, gate=max(settings.gate, _FIRST_GATE))


@dataclass(frozen=True, eq=False)
class _Prepared:
    cloud: Any
    tree: Any
    voxels: Any  # VGICP's; otherwise None


def _prepared(small_gicp: Any, points: np.ndarray, settings: PairwiseSettings, threads: int) -> _Prepared:
    """Preprocess a scan once, for use as source and then as target of the next scan."""
    cloud = small_gicp.PointCloud(points)
    tree = small_gicp.KdTree(cloud, num_threads=threads)
    how = {"tree": tree, "num_neighbors": settings.neighbors, "num_threads": threads}
    voxels = None
    if settings.method == "PLANE_ICP":
        small_gicp.estimate_normals(cloud, **how)
    elif settings.method != "ICP":
        small_gicp.estimate_covariances(cloud, **how)
    if settings.method == "VGICP":
        voxels = small_gicp.GaussianVoxelMap(settings.resolution)
        voxels.insert(cloud)
    return _Prepared(cloud, tree, voxels)


def _aligned(
    small_gicp: Any, before: _Prepared, here: _Prepared, guess: np.ndarray, settings: PairwiseSettings, threads: int
) -> np.ndarray:  # (4, 4)
    how = {
        "init_T_target_source": guess,
        "max_correspondence_distance": settings.gate,
        "num_threads": threads,
        "max_iterations": _ITERATIONS,
        "rotation_epsilon": _SMALLEST_TURN,
        "translation_epsilon": _SMALLEST_SHIFT,
    }
    if settings.method == "VGICP":
        found = small_gicp.align(before.voxels, here.cloud, **how)
    else:
        found = small_gicp.align(before.cloud, here.cloud, before.tree, registration_type=settings.method, **how)
    T = np.asarray(found.T_target_source)
    return T if np.isfinite(T).all() else guess


def _mapped(odometry: Any, scans: Iterable[ScanLike], instant: float) -> Track:
    """Run KISS-ICP or GenZ-ICP, which share an interface. They deskew scans with point times to an `instant`, from 0 at the first
    point to 1 at the last."""
    poses, seconds, late = [], [], []
    for scan in checked(scans):
        times = _shares(scan)
        start = time.perf_counter()
        odometry.register_frame(scan.points, times)
        poses.append(np.array(odometry.last_pose))
        seconds.append(time.perf_counter() - start)
        late.append(instant - stamp_share(scan) if len(times) else 0.0)
    return Track(from_first(moved_to_stamp(np.stack(poses), np.array(late))), np.array(seconds))
