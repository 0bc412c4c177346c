"""Table I: KISS-ICP with its defaults on scans of 16 beams, raw and with points added by PCA, TULIP and POLI.

The paper adds seven points within 0.05 sigma. Its ellipsoids have ten times the size of calibrated ones, so for ours that is 0.5
sigma. PCA's ellipsoids are those of 24 neighbors, at both radii.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cache import our_state
from benchmarks.data.real_sequences import is_off
from benchmarks.data.rings import ring_elevations
from benchmarks.experiments.paper import model_for
from benchmarks.experiments.paper.contest import FRAMES, PAIRS, Found, each, outcome
from benchmarks.experiments.paper.numbers import TABLE1
from benchmarks.experiments.paper.sequences import Source, sources
from benchmarks.experiments.recovered import Augmented
from benchmarks.report import Column, Record, Report, Table, mean, show
from benchmarks.rivals.denser_scans import Denser, densified
from benchmarks.rivals.odometry import run_kiss
from benchmarks.rivals.odometry_contestants import CHOSEN, Outcome
from poli.densification import DensifyConfig
from poli.estimation import pca
from poli.io.datasets.kitti import ELEVATION_ERROR
from poli.scan import Scan, ScanLike

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

BEAMS, SAMPLES, NEIGHBORS = 16, 7, 24
RADIUS, OUR_RADIUS = 0.05, 0.5  # sigmas
_TULIP = Path(__file__).parents[2] / "rivals" / "tulip.safetensors"

PLAIN = "KISS-ICP"
METHODS = {  # ours by the name in the paper's table; "" is not in it
    PLAIN: "raw",
    "+ PCA, 0.05 sigma": "PCA",
    "+ PCA, 0.5 sigma": "",
    "+ TULIP": "TULIP",
    "+ POLI, the paper's sampling": "POLI",
    "+ PCA, our filling": "",
    "+ POLI, our defaults": "",
}


def run(options: Options) -> Iterator[Report]:
    chosen = sources(options, beams=BEAMS)
    why = why_no_tulip(options)
    methods = [method for method in METHODS if method != "+ TULIP" or not why]
    found = each(options, _run, [(source, method) for source in chosen for method in methods], "KISS-ICP")
    frames = options.frames or (FRAMES,)
    records = [{**f.record(n, pairs), "paper_m": paper_number(f, n)} for n in frames for pairs in PAIRS for f in found]
    missing = [
        {**record, "method": "+ TULIP", "rpe_m": math.nan, "rpe_deg": math.nan, "paper_m": _number("TULIP", source, n)}
        for n in frames
        for source in chosen
        for record in records
        if "+ TULIP" not in methods and (record["sequence"], record["method"], record["frames"]) == (source.name, PLAIN, n)
    ]
    yield Report(
        "paper_table1",
        "Table I of the paper: KISS-ICP on augmented scans of 16 beams",
        records,
        _TABLE,
        [*_NOTES, *([f"+ TULIP: not run, {why}."] if why else [])],
        shown=[*records, *missing, *_means([*records, *missing])],
    )


def paper_number(found: Found, frames: int) -> float:
    return _number(METHODS[found.method], found.source, frames)


def _number(name: str, source: Source, frames: int) -> float:
    return TABLE1.get(name, {}).get(source.column, math.nan) if frames == FRAMES else math.nan


def _run(options: Options, job: tuple[Source, str]) -> Found:
    source, method = job
    way = _way(options, source, method)
    made_by = {"name": way.name, **way.about}
    contestant = Augmented(method, "defaults", CHOSEN, partial(_on_denser, way=way), made_by=made_by)
    return outcome(options, source, contestant)


def _on_denser(scans: Sequence[ScanLike], way: Denser) -> Outcome:
    track = run_kiss(way.apply(Scan.of(scan)) for scan in scans)  # one by one: a sequence of dense scans takes gigabytes
    return Outcome(track.poses, track.seconds)


def _way(options: Options, source: Source, method: str) -> Denser:
    model = model_for(options, "table1")
    paper = DensifyConfig(
        model=model, per_point=SAMPLES, max_sigma=OUR_RADIUS, flat=False, max_thickness=0, max_range=0, seed=options.seed
    )
    if method == PLAIN:
        return Denser(PLAIN, _as_it_is)
    if method == "+ TULIP":
        return upsampled(source)
    if method.endswith("sigma"):
        return around_points(RADIUS if "0.05" in method else OUR_RADIUS, options.seed)
    if method.endswith("sampling"):
        return densified(method, paper)
    defaults = DensifyConfig(model=model, seed=options.seed)
    return densified(method, defaults if "POLI" in method else replace(defaults, model="pca"))


def _as_it_is(scan: Scan) -> Scan:
    return scan


def around_points(radius: float, seed: int) -> Denser:
    """The paper's rival: points drawn in the ellipsoid of each point's neighbors, which keep the fields of that point."""
    about = {"samples": SAMPLES, "neighbors": NEIGHBORS, "radius": radius, "seed": seed, **our_state()}
    return Denser("PCA", partial(_with_samples, radius=radius, seed=seed), about)


def _with_samples(scan: Scan, radius: float, seed: int) -> Scan:
    field = pca(scan, k=NEIGHBORS)
    drawn = field.sample(SAMPLES, radius, seed=seed).astype(scan.points.dtype)
    dense = scan.select(np.concatenate([np.arange(len(scan)), np.repeat(np.arange(len(scan)), SAMPLES)]))
    return replace(dense, points=np.concatenate([scan.points, drawn]))


def why_no_tulip(options: Options) -> str:
    """Why TULIP cannot run; empty if it can."""
    if options.beams not in (0, BEAMS):
        return f"it upsamples {BEAMS} beams"
    return "" if _TULIP.is_file() else f"{_TULIP.name} is not there; `python -m benchmarks tulip` trains it"


def upsampled(source: Source) -> Denser:
    """TULIP, reimplemented small: rows between the rings. New points have the time of the nearest one by azimuth."""
    elevations = ring_elevations("hdl64e" if source.dataset == "kitti" else "vlp16", BEAMS)
    if source.dataset == "kitti" and is_off(source.root, source.name):
        elevations = elevations + ELEVATION_ERROR
    about = {"weights": hashlib.sha256(_TULIP.read_bytes()).hexdigest(), "elevations": elevations.tolist()}
    return Denser("TULIP", partial(_with_rows, elevations=elevations), about)


def _with_rows(scan: Scan, elevations: np.ndarray) -> Scan:
    from benchmarks.rivals.tulip import upsample  # torch, which the others do without

    points = upsample(scan.points, elevations)
    if "time" not in scan.fields:
        return Scan(points, {}, scan.stamp)
    old, new = np.arctan2(*scan.points[:, 1::-1].T), np.arctan2(*points[len(scan) :, 1::-1].T)
    order = np.argsort(old)
    nearest = order[np.searchsorted(0.5 * (old[order][1:] + old[order][:-1]), new)]
    times = scan.fields["time"]
    return Scan(points, {"time": np.concatenate([times, times[nearest]])}, scan.stamp)


def _means(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Means over the sequences, for as many as there are."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((record["frames"], record["pairs"], record["method"]), []).append(record)
    return [
        {
            **group[0],
            "sequence": "**mean**",
            "count": sum(r["count"] for r in group),
            "rpe_m": mean([r["rpe_m"] for r in group]),
            "paper_m": mean([r["paper_m"] for r in group]),
        }
        for group in groups.values()
        if len(group) > 1
    ]


def _cell(record: Record) -> str:
    paper = "" if math.isnan(record["paper_m"]) else show(" ({paper_m:.2f})", record)
    return show("{rpe_m:.3f}", record) + paper


_TABLE = Table(
    [Column("scans apart", "{frames}"), Column("pairs", "{pairs}"), Column("sequence", "{sequence}"), Column("count", "{count}")],
    across="method",
    order=tuple(METHODS),
    cell=_cell,
    lowest="rpe_m",
)

_NOTES = [
    "RPE: root mean square of the translation errors, in meters, of pairs of poses so many scans apart, as evo has it: "
    "consecutive pairs (its default; each begins where the one before ended), or all pairs. In parentheses: the number in the "
    "paper, which does not say which pairs.",
    "KITTI's scans are thinned to every fourth ring (elevations as in the files), HeLiPR's are those of its VLP-16. Elevations "
    "of KITTI are corrected by 0.205 degrees, as in KISS-ICP's own loader. Point times are used where the files have them, or "
    "where a raw recording of KITTI needs them.",
    "The paper's sampling: seven points uniformly within 0.05 sigma, which is 0.5 sigma of calibrated ellipsoids. + PCA: "
    "ellipsoids of 24 neighbors at each point, with both radii. Our filling: gaps between rings are filled with ellipsoids of "
    "PCA, as our defaults do with those of the network.",
    "TULIP is reimplemented, small: its authors' network has 270 times as many weights and was trained on KITTI.",
]
