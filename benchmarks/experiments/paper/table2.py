"""Table II: global registration of raw and densified scans.

50 pairs per sequence, drawn at random from all that are at most 12 m apart. The paper names no voxel sizes: every registrar has the
best one in each way, over all pairs of a dataset. Nor does it define success, so there are three limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cache import Cache, our_state, rivals_state
from benchmarks.data.place_pairs import PlacePair, place_pairs, success
from benchmarks.experiments.paper import model_for
from benchmarks.experiments.paper.contest import each
from benchmarks.experiments.paper.numbers import TABLE2
from benchmarks.experiments.paper.sequences import Source, sources
from benchmarks.experiments.paper.table1 import upsampled, why_no_tulip
from benchmarks.report import Column, Record, Report, Table
from benchmarks.rivals.denser_scans import RAW, TULIP, Denser, densified
from benchmarks.rivals.registrars import KISS_MATCHER, TEASER, registrar
from poli.densification import DensifyConfig
from poli.estimation import pca
from poli.scan import Scan
from poli.se3 import inverse, log
from poli.voxels import voxel_downsample

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

BEAMS, PAIRS, MOST = 16, 50, 12.0  # of KITTI; per sequence; meters
VOXELS = (0.3, 0.5, 1.0)  # meters; KISS-Matcher suggests 0.3 m outdoors and clamps its noise bounds beyond 1 m
LIMITS = {"10°": (10.0, math.inf), "5°, 2 m": (5.0, 2.0), "10°, 2 m": (10.0, 2.0)}
# Samples per point, and within how many sigmas. The authors' covariances are about 100 times as large as calibrated ones, so that
# 0.3 and 0.1 of their sigmas are `Options.sigmas` times as many of ours. PCA has both numbers: the paper's and, as "wide", ours.
SAMPLES = {"helipr": (50, 0.3), "kitti": (40, 0.1)}
_VOXEL, _RADIUS = 0.2, 0.5  # meters: of both models, and of PCA
PCA, WIDE_PCA, PAPER, OURS = "+ PCA", "+ PCA, wide", "+ POLI, the paper's samples", "+ POLI, our defaults"
WAYS = (RAW, PCA, WIDE_PCA, TULIP, PAPER, OURS)
IN_PAPER = {"raw": RAW, "PCA": PCA, "TULIP": TULIP, "POLI": PAPER}
TITLES = {"helipr": "HeLiPR", "kitti": "KITTI"}


@dataclass(frozen=True)
class Job:
    """Both registrars on the pairs of one sequence, in one way."""

    source: Source
    way: str


def run(options: Options) -> Iterator[Report]:
    why = why_no_tulip(options)
    ways = [way for way in WAYS if way != TULIP or not why]
    records = measured(options, [Job(source, way) for source in sources(options, beams=BEAMS) for way in ways])
    for record in records:
        record["group"] = TITLES[record["dataset"]]
    known = {(TITLES[dataset], system): values for (dataset, system), values in TABLE2.items()}
    table = Table([Column("dataset", "{group}"), *INDEX], across="way", cell=CELL, highest="success", order=WAYS)
    found = report(options, "paper_table2", "Table II of the paper: global registration, success in percent", records, table, known)
    yield replace(found, notes=[*found.notes, *([f"{TULIP}: not run, {why}"] if why else [])])


# --- measurements


def measured(options: Options, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    return [record for records in each(options, _run_job, jobs, "registrations") for record in records]


def _run_job(options: Options, job: Job) -> list[dict[str, Any]]:
    """One record per registrar and voxel size. Each pair is kept, so an interrupted run continues there."""
    scans, kept, way = job.source.open(), Cache(options.runs), denser(options, job)
    about: dict[str, Any] = {"sequence": scans.identity, "way": {"name": way.name, **way.about}, "voxels": _voxels(options)}
    found: dict[tuple[str, float], dict[str, Any]] = {}
    for pair in place_pairs(scans.poses, options.pairs or PAIRS, MOST, options.seed):
        key = {"table": "registration", "source": pair.source, "target": pair.target, **about, **our_state()}
        key["rivals"] = rivals_state()
        made = kept.get((job.source.dataset, job.source.name), key, partial(_register, options, scans, pair, way))
        for result in made["results"]:
            record = found.setdefault((result["system"], result["voxel"]), _record(job, result))
            for name in _MEASURES:
                record[name].append(result[name])
    return list(found.values())


_MEASURES = ("rotations_deg", "translations_m", "seconds")


def _record(job: Job, result: Mapping[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "dataset": job.source.dataset,
        "sequence": job.source.name,
        "beams": job.source.beams or 64,
        "way": job.way,
    }
    return {**about, "system": result["system"], "voxel": result["voxel"], **{name: [] for name in _MEASURES}}


def _voxels(options: Options) -> tuple[float, ...]:
    return options.voxels or VOXELS


def _register(options: Options, scans: Sequence[Scan], pair: PlacePair, way: Denser) -> dict[str, Any]:
    """Errors in degrees and meters, and seconds, by registrar and voxel size; 180 degrees and 1e9 meters if no pose was found."""
    source, target = (way.apply(scans[row]).clean().points.astype(np.float64) for row in (pair.source, pair.target))
    results = []
    for system in (KISS_MATCHER, TEASER):
        for voxel in _voxels(options):
            begin = perf_counter()
            T = registrar(system, voxel, "")(source, target)
            seconds = perf_counter() - begin
            off = None if T is None else inverse(pair.T_target_source) @ T
            degrees = 180.0 if off is None else float(np.degrees(np.linalg.norm(log(off)[:3])))
            meters = 1e9 if off is None else float(np.linalg.norm(off[:3, 3]))
            results.append({"system": system, "voxel": voxel, **dict(zip(_MEASURES, (degrees, meters, seconds), strict=True))})
    return {"results": results}


def denser(options: Options, job: Job) -> Denser:
    """One of the ways above."""
    per_point, sigma = SAMPLES[job.source.dataset]
    model = model_for(options, "table2")
    if job.way == RAW:
        return Denser(RAW, lambda scan: scan)
    if job.way == TULIP:
        return upsampled(job.source)
    reach = sigma * (1.0 if job.way == PCA else options.sigmas)
    if job.way in (PCA, WIDE_PCA):
        about = {"per_point": per_point, "sigma": reach, "voxel": _VOXEL, "radius": _RADIUS, "seed": options.seed}
        return Denser(job.way, partial(_with_pca, per_point=per_point, sigma=reach, seed=options.seed), about)
    if job.way == OURS:
        return densified(OURS, DensifyConfig(model=model, purpose="features", seed=options.seed))
    samples = DensifyConfig(
        model=model, per_point=per_point, max_sigma=reach, voxel=_VOXEL, flat=False, max_thickness=0.0, max_range=0.0,
        seed=options.seed,
    )  # fmt: skip
    return densified(PAPER, samples)


def _with_pca(scan: Scan, per_point: int, sigma: float, seed: int) -> Scan:
    """The scan and samples around the PCA of its voxels."""
    scan = scan.clean()
    field = pca(voxel_downsample(scan.points.astype(np.float64), _VOXEL), radius=_RADIUS)
    return Scan(np.concatenate([scan.points, field.sample(per_point, sigma, seed=seed).astype(scan.points.dtype)]))


# --- tables

INDEX = (Column("registrar", "{system}"), Column("success", "{limit}"))
CELL = "{success:.2f}"


def report(
    options: Options,
    name: str,
    title: str,
    records: Sequence[dict[str, Any]],
    table: Table,
    known: Mapping[Any, Mapping[str, float]],
) -> Report:
    """A row with the paper's numbers, and one for each limit, for each `group` of records and registrar."""
    chosen, voxels = at_best_voxels(records)
    shown: list[dict[str, Any]] = []
    for group, system in dict.fromkeys((r["group"], r["system"]) for r in chosen):
        row, here = {"group": group, "system": system}, [r for r in chosen if (r["group"], r["system"]) == (group, system)]
        paper = known.get((group, system.rstrip("+")), {})
        shown += [{**row, "limit": "the paper", "way": IN_PAPER[way], "success": value} for way, value in paper.items()]
        by_way = {way: [r for r in here if r["way"] == way] for way in dict.fromkeys(r["way"] for r in here)}
        shown += [
            {**row, "limit": limit, "way": way, "success": pooled(those, limit)}
            for limit in LIMITS for way, those in by_way.items()
        ]  # fmt: skip
    counts = {r["sequence"]: len(r["seconds"]) for r in records}
    notes = [
        f"pairs at most {MOST:g} m apart: {', '.join(f'{sequence} {count}' for sequence, count in counts.items())}",
        f"the paper's samples: {'; '.join(_said(options, dataset) for dataset in dict.fromkeys(r['dataset'] for r in records))}",
        "our defaults: `poli densify --purpose features`",
        f"of the voxel sizes {', '.join(f'{v:g}' for v in _voxels(options))} m each registrar has the best in each way (within 5°, "
        "2 m): " + "; ".join(f"{' '.join(key)} {voxel:g} m" for key, voxel in voxels.items()),
    ]
    return Report(name, title, records, table, notes, {"shown": shown}, shown=shown)


def _said(options: Options, dataset: str) -> str:
    per_point, sigma = SAMPLES[dataset]
    return (
        f"{TITLES[dataset]} {per_point} per point within {sigma:g} sigma, which is {sigma * options.sigmas:g} of calibrated "
        f"ellipsoids; + PCA (voxels of {_VOXEL:g} m, radius {_RADIUS:g} m) has {sigma:g}, wide {sigma * options.sigmas:g}"
    )


def at_best_voxels(records: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[tuple[str, ...], float]]:
    """The records of each group, registrar and way at the voxel size that registers most pairs, and these sizes."""
    groups: dict[tuple[str, ...], dict[float, list[dict[str, Any]]]] = {}
    for r in records:
        groups.setdefault((r["group"], r["system"], r["way"]), {}).setdefault(r["voxel"], []).append(r)
    voxels = {key: max(by_voxel, key=lambda v: pooled(by_voxel[v], "5°, 2 m")) for key, by_voxel in groups.items()}
    return [r for key, voxel in voxels.items() for r in groups[key][voxel]], voxels


def pooled(records: Sequence[Record], limit: str) -> float:
    """Percent of the pairs of all records that are within a limit."""
    degrees, meters = ([value for r in records for value in r[name]] for name in ("rotations_deg", "translations_m"))
    return 100.0 * success(degrees, meters, *LIMITS[limit])
