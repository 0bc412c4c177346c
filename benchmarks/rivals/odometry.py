"""The rivals of LiDAR odometry: small_gicp from scan to scan, in four kinds, and KISS-ICP and GenZ-ICP, which keep a map.

Scan to scan, every kind is given the same voxelized points and the same first guess, and differs by what it makes of them. Each is
given a few settings, and is to be judged by its best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from poli.errors import InputError, MissingExtra
from poli.se3 import inverse
from poli.threads import thread_count
from poli.voxels import voxel_downsample

PAIRWISE = ("ICP", "PLANE_ICP", "GICP", "VGICP")  # as small_gicp calls them; of another name it makes the identity, without error

# small_gicp stops at 20 steps, 1.7 mrad and 1 mm by default: too early to say which cost is the better one.
_ITERATIONS, _SMALLEST_TURN, _SMALLEST_SHIFT = 50, 1e-4, 1e-4  # steps, radians, meters
_FIRST_GATE = 2.0  # meters: the first motion is found from nothing, so it is looked for in a wide gate before the settings' own
# Resolution and gate, meters. A point is matched with the voxel it is in, so that a gate only cuts corners off large ones.
_VGICP_SIZES = ((0.5, 1.0), (1.0, 0.5), (2.0, 1.0))
_FEWEST = 10  # points


@dataclass(frozen=True, eq=False)
class Track:
    """What an odometry made of a drive."""

    poses: np.ndarray  # (M, 4, 4): of each scan in the frame of the first
    seconds: np.ndarray  # (M,): wall time of each scan, from raw points to pose


@dataclass(frozen=True)
class PairwiseSettings:
    """How small_gicp aligns a scan to the one before."""

    method: str  # of `PAIRWISE`
    gate: float  # meters: points farther apart are no match
    neighbors: int = 20  # of normals and covariances; "ICP" has neither
    resolution: float = 1.0  # meters: of VGICP's voxels

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
    """The settings that a method is tried with on points of this voxel size: six at most."""
    gates = sorted({0.5, 1.0, 3.0 * voxel})
    if method == "ICP":
        return tuple(PairwiseSettings(method, gate) for gate in sorted({*gates, 2.0}))
    if method == "VGICP":
        return tuple(PairwiseSettings(method, gate, k, size) for size, gate in _VGICP_SIZES for k in (10, 20))
    return tuple(PairwiseSettings(method, gate, k) for gate in gates for k in (10, 20))


def run_pairwise(scans: Iterable[np.ndarray], voxel: float, settings: PairwiseSettings) -> Track:  # each (N, 3)
    """Every scan is aligned to the one before, from the guess that the last motion goes on; before the first, there is none."""
    try:
        import small_gicp
    except ImportError:
        raise MissingExtra("comparing with small_gicp", "bench") from None
    threads = thread_count()
    poses, motion, before, seconds = [np.eye(4)], np.eye(4), None, []
    for number, raw in enumerate(_checked(scans)):
        start = time.perf_counter()
        points = voxel_downsample(raw, voxel).points
        if len(points) < _FEWEST:
            raise InputError(f"scans[{number}] has {len(points)} voxels of {voxel} m; {_FEWEST} are needed, so take smaller ones")
        here = _prepared(small_gicp, points, settings, threads)
        if before is not None:
            if number == 1:
                motion = _aligned(small_gicp, before, here, motion, _wide(settings), threads)
            motion = _aligned(small_gicp, before, here, motion, settings, threads)
            poses.append(poses[-1] @ motion)
        before = here
        seconds.append(time.perf_counter() - start)
    return Track(np.stack(poses), np.array(seconds))


def run_kiss(scans: Iterable[np.ndarray]) -> Track:  # each (N, 3)
    """KISS-ICP with its defaults on the raw scans."""
    try:
        from kiss_icp.config import load_config
        from kiss_icp.kiss_icp import KissICP
    except ImportError:
        raise MissingExtra("comparing with KISS-ICP", "bench") from None
    config = load_config(None)  # which, unlike a bare KISSConfig, chooses the voxel size
    config.data.deskew = False  # the scans are deskewed already
    config.registration.max_num_threads = thread_count()
    return _mapped(KissICP(config), scans)


def run_genz(scans: Iterable[np.ndarray], tuning: str | None = None) -> Track:  # each (N, 3)
    """GenZ-ICP on the raw scans with its defaults, or with one of its authors' tunings ("outdoor", "kitti", ...).

    It takes all cores that the process may run on.
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
            f"tuning is {tuning!r}; GenZ-ICP has 'outdoor', 'kitti', 'indoor' and some more in its config/pretuned"
        ) from None
    config.data.deskew = False
    return _mapped(GenZICP(config), scans)


Run = Callable[[Iterable[np.ndarray]], Track]


@dataclass(frozen=True)
class Method:
    about: str
    voxelized: bool  # whether the voxel size makes a difference; if not, one run serves them all
    ways: Callable[[float], dict[str, Run]]  # voxel size in meters -> by setting; the best one counts


def _pairwise_ways(method: str, voxel: float) -> dict[str, Run]:
    return {s.label: partial(run_pairwise, voxel=voxel, settings=s) for s in settings_grid(method, voxel)}


METHODS: dict[str, Method] = {
    "ICP": Method("point to point, scan to scan (small_gicp)", True, partial(_pairwise_ways, "ICP")),
    "Plane ICP": Method("point to plane, scan to scan (small_gicp)", True, partial(_pairwise_ways, "PLANE_ICP")),
    "GICP": Method("plane to plane, scan to scan (small_gicp)", True, partial(_pairwise_ways, "GICP")),
    "VGICP": Method("plane to the voxels of the scan before (small_gicp)", True, partial(_pairwise_ways, "VGICP")),
    "KISS-ICP": Method("point to point on a map, its defaults, raw scans", False, lambda _: {"defaults": run_kiss}),
    "GenZ-ICP": Method(
        "point to plane and point to point on a map, its defaults and its tuning for outdoors, raw scans",
        False,
        lambda _: {"defaults": run_genz, "outdoor": partial(run_genz, tuning="outdoor")},
    ),
}


def _wide(settings: PairwiseSettings) -> PairwiseSettings:
    """For the first motion. VGICP sees no farther than its voxels and is started by GICP, which has the same covariances."""
    method = "GICP" if settings.method == "VGICP" else settings.method
    return replace(settings, method=method, gate=max(settings.gate, _FIRST_GATE))


@dataclass(frozen=True, eq=False)
class _Prepared:
    cloud: Any
    tree: Any
    voxels: Any  # VGICP's; otherwise None


def _prepared(small_gicp: Any, points: np.ndarray, settings: PairwiseSettings, threads: int) -> _Prepared:
    """All that a scan needs on either side, once; it is the target of the next."""
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


def _mapped(odometry: Any, scans: Iterable[np.ndarray]) -> Track:
    """KISS-ICP and GenZ-ICP are called alike."""
    poses, seconds, no_times = [], [], np.array([])
    for points in _checked(scans):
        start = time.perf_counter()
        odometry.register_frame(points, no_times)
        poses.append(np.array(odometry.last_pose))
        seconds.append(time.perf_counter() - start)
    return Track(inverse(poses[0]) @ np.stack(poses), np.array(seconds))


def _checked(scans: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """In float64, which all of them want: whoever is timed need not convert. Dense scans are made one at a time."""
    number = -1
    for number, points in enumerate(scans):
        if np.ndim(points) != 2 or np.shape(points)[1] != 3 or not len(points):
            raise InputError(f"scans[{number}] has shape {np.shape(points)}; expected (N, 3), and N of at least 1")
        yield np.ascontiguousarray(points, np.float64)
    if number < 0:
        raise InputError("scans: there are none; odometry needs one or more")
