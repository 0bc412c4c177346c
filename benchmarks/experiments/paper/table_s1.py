"""Supplement, table of likelihoods: GICP from scan to scan with models trained for T-Q-C and T-T-Q-C, on KAIST04 at 0.5 m.

Train the models by the same configuration with `loss.kind = "tqc"` and "ttqc", and give them by --tqc and --ttqc; with several of
a kind, or --model, to compare networks, they have the names of their files. A second table has likelihoods of the next scan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.progress import track

from benchmarks.experiments.paper.contest import FRAMES, PAIRS, Found, Untimed, each, outcome
from benchmarks.experiments.paper.numbers import TABLE_S1
from benchmarks.experiments.paper.odometry import scan_to_scan, track_of
from benchmarks.experiments.paper.sequences import Source, sources
from benchmarks.metrics.likelihood import Matches, gate_for, nll, squared, tuned_pca
from benchmarks.report import Column, Record, Report, Table, column_list, show
from benchmarks.rivals.odometry import PairwiseSettings, run_pairwise
from benchmarks.rivals.odometry_contestants import Contestant
from poli.estimation import estimate
from poli.se3 import inverse
from poli.voxels import voxel_downsample

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

VOXEL = 0.5  # meters
TQC, TTQC = "T-Q-C", "T-T-Q-C"
_JUDGED = 40  # pairs of consecutive scans per sequence, evenly spread
_APART = (1, 50, FRAMES)
_GICP = PairwiseSettings("GICP", 1.0)


def run(options: Options) -> Iterator[Report]:
    models = models_by_name(options)
    voxel = (options.voxels or (VOXEL,))[0]
    everyone = [Contestant("GICP", _GICP.label, voxel, partial(track_of, way=partial(run_pairwise, voxel=voxel, settings=_GICP)))]
    everyone += [scan_to_scan(f"+ {name}", model, voxel) for name, model in models.items()]
    chosen = sources(options, ("KAIST",))
    found = each(options, _run, [(source, one) for source in chosen for one in everyone], "odometry")
    apart = options.frames or _APART
    records = [
        {**f.record(n, pairs), "paper_m": paper_number(f, n), "place": f.source.column}
        for f in found
        for n in apart
        for pairs in PAIRS
    ]
    lost = [name for name, given in ((TQC, options.tqc), (TTQC, options.ttqc)) if not given]
    missing = [_missing(name, record) for record in records for name in lost if record["method"] == "GICP"]
    notes = [
        f"{name}: no model; train one with the loss kind {name.replace('-', '').lower()!r} (docs/tutorial/training.md), and give "
        f"it by --{name.replace('-', '').lower()}."
        for name in lost
    ]
    title = f"Supplement of the paper: likelihoods with an exact and an inexact pose, GICP at {voxel:g} m"
    yield Report("paper_table_s1", title, records, _TABLE, [*_NOTES, *notes], shown=[*records, *missing])
    yield _likelihoods(options, chosen, models, voxel)


def models_by_name(options: Options) -> dict[str, str]:
    """The given models: by their likelihood as in the paper if there is one of each, otherwise by their files."""
    several = max(len(options.tqc), len(options.ttqc)) > 1
    named = {path.stem if several else name: str(path) for name, paths in _kinds(options) for path in paths}
    return named if options.model is None else {**named, options.model: options.model}


def _kinds(options: Options) -> tuple[tuple[str, tuple[Path, ...]], ...]:
    return (TQC, options.tqc), (TTQC, options.ttqc)


def _likelihoods(options: Options, chosen: Sequence[Source], models: dict[str, str], voxel: float) -> Report:
    """How well the models explain the next scan at the given pose, against PCA at its best."""
    records: list[Record] = []
    for source in chosen:
        scans = Untimed(source.open())
        poses, last = scans.scans.poses, len(scans) - 2
        rows = np.unique(np.linspace(0, last, min(last + 1, _JUDGED)).round().astype(int))
        pairs = []
        for row in track(rows, f"likelihoods, {source.label}"):
            q, p = (voxel_downsample(scans[int(r)].clean(), voxel) for r in (row, row + 1))
            pairs.append(Matches.of(q, p, inverse(poses[row]) @ poses[row + 1], gate_for(voxel)))
        tuned = tuned_pca(pairs)
        about = {"case": source.label, "pairs": len(pairs)}
        best = {"nll": tuned.nll, "median_squared": tuned.median_squared}
        records.append({**about, "method": f"PCA, tuned here (k {tuned.k})", **best})
        for name, model in models.items():
            fields = [(pair, estimate(pair.points, model).covariances[pair.rows]) for pair in pairs]
            values = np.concatenate([nll(pair.d, C) for pair, C in fields])
            squares = np.concatenate([squared(pair.d, C) for pair, C in fields])
            found = {"nll": float(values.mean()), "median_squared": float(np.median(squares))}
            records.append({**about, "method": name, **found})
    return Report("paper_table_s1_nll", f"The next scan under the given pose, at {voxel:g} m", records, _NLL, _NLL_NOTES)


def _missing(name: str, beside: Record) -> Record:
    """The row of a model that was not given, with the paper's number."""
    known = TABLE_S1[name].get(beside["frames"], math.nan) if beside["place"] == "KAIST" else math.nan
    return {**beside, "method": f"+ {name}", "rpe_m": math.nan, "rpe_deg": math.nan, "paper_m": known}


def _run(options: Options, job: tuple[Source, Contestant]) -> Found:
    source, contestant = job
    return outcome(options, source, contestant, Untimed(source.open()))


def paper_number(found: Found, frames: int) -> float:
    """The paper's number, for KAIST only."""
    printed = TABLE_S1.get(found.method.removeprefix("+ "), {})
    return printed.get(frames, math.nan) if found.source.column == "KAIST" else math.nan


def _cell(record: Record) -> str:
    paper = "" if math.isnan(record["paper_m"]) else show(" ({paper_m:.4f})", record)
    return show("{rpe_m:.4f}", record) + paper


_TABLE = Table(
    [
        Column("sequence", "{case}"),
        Column("scans apart", "{frames}"),
        Column("pairs", "{pairs}"),
        Column("count", "{count}"),
    ],
    across="method",
    cell=_cell,
    lowest="rpe_m",
)

_NLL = Table(column_list(sequence="{case}", pairs="{pairs}", ellipsoids="{method}", NLL="{nll:.3f}", median="{median_squared:.2f}"))

_NLL_NOTES = [
    "NLL: mean of -log(0.9 N(d; 0, 2C) + 0.1 N(d; 0, 1 m^2 I)) in nats per match, of nearest neighbors within 2 m (or two "
    "voxels) in the next scan; lower is better. Median: of d'(2C)^-1 d, 2.37 when calibrated.",
    "PCA: the number of neighbors, a factor and a floor of the sizes that are best on these very pairs.",
]

_NOTES = [
    "RPE: root mean square of the translation errors, in meters. In parentheses: the paper's number. All receive the same "
    "voxelized points, without point times, and start from the last motion.",
]
