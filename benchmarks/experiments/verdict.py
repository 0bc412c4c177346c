"""Whether the registration of scans knows when it is wrong, on pairs of scans of one place and of different places.

The probability is fitted on some sequences and worlds, and reported on others. The fitted coefficients are recorded with
the results; `poli.registration.presets` has a copy.

Example: python -m benchmarks verdict --real sequences --out docs/results
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.data.verdict_pairs import ELSEWHERE, FIT, REPORT, PairGroup, VerdictPair, pair_groups
from benchmarks.data.verdict_searches import AFTER, BEFORE, Searches, searches
from benchmarks.metrics.reliability import brier, calibration_error, draw_reliability, fit_logistic
from benchmarks.options import REAL, RUNS, option
from benchmarks.report import Column, Record, Report, Table
from poli.registration.presets import COEFFICIENTS, MAX_TILT, PRESETS
from poli.registration.search import tilt
from poli.registration.verdict import SIGNS, Evidence, evidence_of, probability_of
from poli.threads import use_one_thread

MODELS = ("lidar",)

_OLD_LIMIT = 0.3  # agreement of upright surfaces, below which poses used to cause a warning
# Limits of a right pose. In real sequences, right poses differ from the given ones by up to 1.5 m over 30 m, since scans are
# skewed; wrong ones by 6 m or more.
_DEGREES, _METERS_SIMULATED, _METERS_REAL, _METERS_INDOORS = 5.0, 1.0, 2.0, 0.5
PARTS = 8


@dataclass(frozen=True)
class Options:
    real: Path | None = option(None, REAL)
    runs: Path = option(Path("runs/verdict"), RUNS)
    parts: int = option(PARTS, f"eighths of the pairs to run, 1 to {PARTS}", least=1)


def run(options: Options) -> Iterator[Report]:
    use_one_thread()
    records = list(measure(options))
    fitted = {name: fit(records, name) for name in (AFTER, BEFORE)}
    shipped = {AFTER: list(COEFFICIENTS[True]), BEFORE: list(COEFFICIENTS[False])}
    if fitted != shipped:
        print(f"The coefficients in poli.registration.presets differ from the fitted ones, {fitted}; update them")
    yield report([judged(r, fitted) for r in records], fitted)


def judged(record: Record, fitted: dict[str, list[float]]) -> dict[str, Any]:
    """The record with the probabilities of both poses. If none was found, it is 0."""
    results = {}
    for name, coefficients in fitted.items():
        evidence = record[name]["evidence"]
        probability = round(probability_of(Evidence(*evidence), coefficients), 4) if evidence else 0.0
        results[name] = {**record[name], "probability": probability}
    return {**record, **results}


def measure(options: Options) -> Iterator[dict[str, Any]]:
    kept, groups = Searches(options.runs), pair_groups(options.real)
    total = sum(len(pairs) * options.parts // PARTS for pairs in (group.pairs() for group in groups))
    found = searches(groups, kept, PARTS, options.parts)
    for group, pair, result in track(found, "pairs", total):
        yield record(group, pair, result, kept)


def record(group: PairGroup, pair: VerdictPair, result: dict[str, Any], kept: Searches) -> dict[str, Any]:
    """A pair, and for both searches whether the pose is right, and the evidence."""
    about = {"group": group.name, "half": group.half, "real": group.real, "indoors": group.indoors}
    about = {**about, "pair": pair.name, "label": pair.label}
    return {**about, **{name: _outcome(group, pair, result[name], name, kept) for name in (BEFORE, AFTER)}}


def _outcome(group: PairGroup, pair: VerdictPair, found: dict[str, Any], name: str, kept: Searches) -> dict[str, Any]:
    if "error" in found:
        return {"found": False, "right": False, "agreement": 0.0, "evidence": None}
    meters = _METERS_INDOORS if group.indoors else _METERS_REAL if group.real else _METERS_SIMULATED
    right = pair.label != ELSEWHERE and found["degrees"] <= _DEGREES and found["meters"] <= meters
    P, Q = (kept.surface(sighting, group.preset) for sighting in (pair.source, pair.target))
    upright, T = name == AFTER, np.array(found["T_target_source"])
    evidence = evidence_of(P, Q, T, 2.0 * PRESETS[group.preset].noise_bound, found["margin"], upright)
    numbers = {name: found[name] and round(found[name], 3) for name in ("degrees", "meters", "agreement")}
    numbers["tilt"] = round(float(tilt(T)), 1)
    return {"found": True, "right": right, **numbers, "evidence": [round(value, 4) for value in evidence]}


def fit(records: Sequence[Record], name: str) -> list[float]:
    """Coefficients of the logistic regression on the half to fit: the constant first, then one per kind of evidence."""
    chosen = [r[name] for r in records if r["half"] == FIT and r[name]["found"]]
    evidence = np.array([r["evidence"] for r in chosen])
    return fit_logistic(evidence, np.array([r["right"] for r in chosen]), SIGNS).round(2).tolist()


_TABLE = Table(
    [Column("scans", "{scans}"), Column("verdict", "{verdict}")],
    [
        Column("pairs of one place", "{same}"),
        Column("pose right", "{right}"),
        Column("called right", "{right_called_right}"),
        Column("pose wrong", "{wrong}"),
        Column("called wrong", "{wrong_called_wrong}"),
        Column("different places", "{apart}"),
        Column("called wrong", "{apart_called_wrong}"),
        Column("correct verdicts", "{correct:.1f} %"),
    ],
)
_BEFORE, _AFTER = "before: agreement of 0.3 or more", "**probability of 0.5 or more**"


def report(records: Sequence[Record], fitted: dict[str, list[float]]) -> Report:
    shown = []
    reported = [r for r in records if r["half"] == REPORT]
    parts: dict[str, list[Record]] = {"**all, not fitted to**": reported}
    for r in reported:
        parts.setdefault(f"{r['group']}{', indoors' if r['indoors'] else ''}", []).append(r)
    parts["fitted to"] = [r for r in records if r["half"] == FIT]
    for scans, group in parts.items():
        shown.append({"scans": scans, "verdict": _BEFORE, **_counts(group, BEFORE, "agreement", _OLD_LIMIT)})
        shown.append({"scans": scans, "verdict": _AFTER, **_counts(group, AFTER, "probability", 0.5)})
    scores = {half: _scores([r[AFTER] for r in records if r["half"] == half]) for half in (FIT, REPORT)}
    notes = [
        f"A pose is right if it is within {_DEGREES:g} degrees and {_METERS_SIMULATED:g} m of the truth ({_METERS_INDOORS:g} m "
        f"indoors; {_METERS_REAL:g} m in real sequences outdoors, whose given poses are less accurate). Any pose between different "
        "places is wrong. If no pose was found, the verdict is 'wrong'.",
        "Before: any rotation was allowed, and a warning issued if fewer than 0.3 of the upright surfaces agreed. Now: poses that "
        "tip the vertical by more than 45 degrees are not considered. Both from the same matches.",
        _tipped(records),
        "Pairs of one place are 0 to 30 m apart outdoors, 0 to 16 m in corridors, 0 to 6 m in rooms. Headings differ at random.",
        *(f"{_NAMES[h]}: Brier score {s['brier']:.3f}, calibration error {s['error']:.3f}." for h, s in scores.items()),
        "The coefficients were fitted to one half only. The four kinds of evidence were chosen on the first quarter of the pairs "
        "of both halves, and the limit of 2 m was set with the results of both in view.",
        f"Fitted coefficients (constant, {', '.join(Evidence._fields)}): {fitted[AFTER]}; with any rotation: {fitted[BEFORE]}.",
    ]
    drawn = {_NAMES[half]: [r[AFTER] for r in records if r["half"] == half] for half in (FIT, REPORT)}
    curves = {name: (_column(group, "probability"), _column(group, "right")) for name, group in drawn.items()}
    plots = {"verdict": partial(draw_reliability, curves)}
    summary = {"coefficients": fitted, "scores": scores}
    return Report("verdict", "Registration of scans: is the pose right?", records, _TABLE, notes, summary, plots, shown)


_NAMES = {FIT: "sequences and worlds fitted to", REPORT: "other sequences and worlds"}


def _counts(records: Sequence[Record], name: str, measure: str, limit: float) -> dict[str, Any]:
    same, apart = ([r[name] for r in records if (r["label"] == ELSEWHERE) == there] for there in (False, True))
    right, wrong = ([r for r in same if r["right"] == is_right] for is_right in (True, False))
    trusted = {id(r): r[measure] >= limit for r in (*same, *apart)}
    correct = sum(trusted[id(r)] == r["right"] for r in (*same, *apart))
    return {
        "same": len(same), "right": len(right), "right_called_right": sum(trusted[id(r)] for r in right),
        "wrong": len(wrong), "wrong_called_wrong": sum(not trusted[id(r)] for r in wrong),
        "apart": len(apart), "apart_called_wrong": sum(not trusted[id(r)] for r in apart),
        "correct": 100.0 * correct / max(len(records), 1),
    }  # fmt: skip


def _tipped(records: Sequence[Record]) -> str:
    poses = [r[BEFORE] for r in records if r[BEFORE]["found"] and r[BEFORE]["tilt"] > MAX_TILT]
    trusted = sum(r["agreement"] >= _OLD_LIMIT for r in poses)
    return (
        f"Before, {len(poses)} of {len(records)} poses tipped the vertical by more than that, {trusted} of them without a warning."
    )


def _scores(results: Sequence[Record]) -> dict[str, float]:
    probability, right = _column(results, "probability"), _column(results, "right")
    return {"brier": brier(probability, right), "error": calibration_error(probability, right), "pairs": len(results)}


def _column(results: Sequence[Record], name: str) -> np.ndarray:
    return np.array([float(r[name]) for r in results])
