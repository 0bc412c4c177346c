"""Fig. 7 and Fig. SD1: odometry from scan to scan by voxel size, and systems with their defaults on the raw scans.

All methods from scan to scan receive the same voxelized points without point times, and the last motion as guess. Rivals have a
gate of 1 m, as in the paper's framework, and 20 neighbors; with --grid, they run at all our settings, and the best one counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.experiments.odometry.plots import plot_errors
from benchmarks.experiments.paper import model_for
from benchmarks.experiments.paper.contest import FRAMES, PAIRS, Found, Untimed, each, outcome, written_by
from benchmarks.experiments.paper.numbers import TABLE_S1
from benchmarks.experiments.paper.sequences import TESTED, Source, sources
from benchmarks.metrics.odometry import Judged, at_best_settings
from benchmarks.report import NONE, Column, Record, Report, Table, show
from benchmarks.rivals.odometry import METHODS, PairwiseSettings, run_pairwise
from benchmarks.rivals.odometry_contestants import CHOSEN, SCAN, VARIANTS, Contestant, Outcome, our_contestant
from benchmarks.rivals.tracks import Run
from poli.scan import ScanLike

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

VOXELS = {"velodyne": (0.2, 0.5, 1.0), "ouster": (1.0, 1.5, 2.0), "hdl64e": (0.2, 0.5, 1.0)}  # meters; KITTI's are ours
OURS = "POLI+GICP"
SMALL_GICP = {"ICP": "ICP", "Plane ICP": "PLANE_ICP", "GICP": "GICP", "VGICP": "VGICP"}
_SPINNING = ("KISS-ICP", "GenZ-ICP", "LOAM")
SYSTEMS = {"velodyne": _SPINNING, "ouster": _SPINNING[:2], "hdl64e": _SPINNING}
READ = {"velodyne": ("A-LOAM", "F-LOAM"), "ouster": (), "hdl64e": ("A-LOAM", "F-LOAM")}  # from files
ORDER = (*VARIANTS, OURS, "KISS-ICP", "GenZ-ICP", "LOAM", "A-LOAM", "F-LOAM")
_GATE = 1.0  # meters


def run(options: Options) -> Iterator[Report]:
    everything, notes = found_by_all(options, sources(options, TESTED, ("velodyne", "ouster")))
    best = at_best(everything)
    records = [
        {**found.record(n, pairs), "paper_m": paper_number(found, n)}
        for found in best
        for n in options.frames or (1, FRAMES)
        for pairs in (PAIRS if n > 1 else PAIRS[1:])
    ]
    plots = {"paper_odometry": partial(plot_errors, [_plotted(found) for found in best])}
    title = "Fig. 7 and SD1 of the paper: odometry from scan to scan, and systems"
    yield Report("paper_odometry", title, records, _TABLE, [*_NOTES, *notes], plots=plots)


def found_by_all(options: Options, chosen: Sequence[Source]) -> tuple[list[Found], list[str]]:
    """The trajectories of all methods on these sequences, and why some are missing."""
    jobs = [(source, contestant) for source in chosen for contestant in contestants(options, source)]
    found = each(options, _run, jobs, "odometry")
    read = [written_by(options, source, method) for source in chosen for method in READ[source.sensor]]
    found += [one for one in read if isinstance(one, Found)]
    return found, list(dict.fromkeys(one for one in read if isinstance(one, str)))


def contestants(options: Options, source: Source) -> list[Contestant]:
    found = []
    for voxel in options.voxels or VOXELS[source.sensor]:
        for name in VARIANTS:
            settings = PairwiseSettings(SMALL_GICP[name], _GATE)
            one: dict[str, Run] = {settings.label: partial(run_pairwise, voxel=voxel, settings=settings)}
            ways = METHODS[name].ways(voxel) if options.grid else one
            found += [Contestant(name, label, voxel, partial(track_of, way=way)) for label, way in ways.items()]
        found.append(scan_to_scan(OURS, model_for(options, "odometry"), voxel))
    defaults = [(name, *next(iter(METHODS[name].ways(CHOSEN).items()))) for name in SYSTEMS[source.sensor]]
    return [*found, *(Contestant(name, label, CHOSEN, partial(track_of, way=way)) for name, label, way in defaults)]


def scan_to_scan(method: str, model: str, voxel: float) -> Contestant:
    """GICP with the ellipsoids of a model, from scan to scan."""
    return replace(our_contestant(SCAN, voxel, model), method=method)


def track_of(scans: Sequence[ScanLike], way: Run) -> Outcome:
    track = way(scans)
    return Outcome(track.poses, track.seconds)


def _run(options: Options, job: tuple[Source, Contestant]) -> Found:
    source, contestant = job
    return outcome(options, source, contestant, None if contestant.voxel == CHOSEN else Untimed(source.open()))


def paper_number(found: Found, frames: int) -> float:
    """The paper prints one number for its method from scan to scan: on KAIST04 at 0.5 m."""
    printed = (OURS, 0.5, "KAIST", "velodyne")
    same = (found.method, found.voxel, found.source.column, found.source.sensor) == printed
    return TABLE_S1["T-T-Q-C"].get(frames, math.nan) if same else math.nan


def at_best(everything: Sequence[Found]) -> list[Found]:
    """Each method at its best setting for a sensor and voxel size: that of the lowest mean error from scan to scan."""
    kept = {(j.drive, j.method, j.voxel): j.setting for j in at_best_settings(map(_judged, everything))}
    return [found for found in everything if kept[found.source.label, found.method, found.voxel] == found.setting]


def _judged(found: Found) -> Judged:
    rpe = {1: found.errors(1, "all")}
    nothing: dict[str, Any] = {"drift": math.nan, "drift_frames": 0, "segments": math.nan, "milliseconds": math.nan}
    counts = {"restarts": 0, "degenerate": 0}
    case = found.source.label
    return Judged(
        case, case, case, found.method, found.setting, found.voxel, rpe, **nothing, **counts, poses=found.poses
    )  # fmt: skip


def _plotted(found: Found) -> Judged:
    """An outcome under the name that the plot knows."""
    judged = _judged(found)
    return replace(judged, method=SCAN) if judged.method == OURS else judged


def _cell(record: Record) -> str:
    if math.isnan(record["rpe_m"]):
        return NONE
    paper = "" if math.isnan(record["paper_m"]) else show(" ({paper_m:.4f})", record)
    return show("{rpe_m:.3f} / {rpe_deg:.3f}", record) + paper


def voxel_of(record: Record) -> str:
    return "raw" if record["voxel_m"] == CHOSEN else show("{voxel_m:g} m", record)


_TABLE = Table(
    [
        Column("sequence", "{case}"),
        Column("voxels", voxel_of),
        Column("scans apart", "{frames}"),
        Column("pairs", "{pairs}"),
        Column("count", "{count}"),
    ],
    across="method",
    cell=_cell,
    lowest="rpe_m",
)

_NOTES = [
    "RPE: root mean squares in meters / degrees, of pairs of poses so many scans apart, as evo has it: consecutive pairs (its "
    "default; each begins where the one before ended), or all pairs. In parentheses: the paper's number, which it prints for "
    "one case only; its figures have no numbers.",
    "From scan to scan, all methods receive the same voxelized points, without point times, and start from the last motion; "
    "rivals are those of small_gicp. Systems (voxels: raw) have their authors' defaults, and point times where they are known. "
    "LOAM is evalio's. A-LOAM and F-LOAM are read from files that they have written (--trajectories).",
]
