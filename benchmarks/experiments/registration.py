"""Global registration of scans: `poli.register`, KISS-Matcher and a TEASER-like pipeline, on raw and on denser scans.

Every rival runs with several voxel sizes, on raw and on denser scans, and has the one that registers most of all pairs.

Examples: python -m benchmarks registration --real sequences
          python -m benchmarks registration --places town --pairs 10
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.cache import Cache, our_state, rivals_state
from benchmarks.data.drives import (
    DriveOptions,
    DriveSource,
    RealDrive,
    RealSequence,
    RecordedDrive,
    SimulatedDrive,
    simulated_sequences,
)
from benchmarks.data.place_pairs import place_pairs, success
from benchmarks.options import PROCESSES, RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.provenance import weights_digest
from benchmarks.report import Column, Plot, Record, Report, Table
from benchmarks.rivals.denser_scans import INTERPOLATION, POLI, RAW, Denser, denser
from benchmarks.rivals.registrars import KISS_MATCHER, OURS, registrar
from benchmarks.rivals.registrars import TEASER_LIKE as TEASER
from poli.densification import DensifyConfig
from poli.scan import Scan
from poli.se3 import inverse, log
from poli.threads import thread_count, use_one_thread

MODELS = ("lidar",)
MOST = 12.0  # meters between the two scans
WITHIN = (5.0, 2.0)  # degrees, meters
# Meters. KISS-Matcher suggests 0.3 m outdoors and clamps its noise bounds beyond 1 m.
VOXELS: dict[str, tuple[float, ...]] = {KISS_MATCHER: (0.3, 0.5, 1.0), TEASER: (0.3, 0.5, 1.0), OURS: (0.0,)}
PRESETS = {16: "vlp16", 32: "hdl32e", 64: "hdl64e"}
SEQUENCES = (
    *(RealSequence(f"kitti_raw_{name}", "hdl64e", 10.0, (0.5,), raw_kitti=True) for name in ("0005", "0009", "0013")),
    RealSequence("nuscenes_0006", "hdl32e", 20.0, (0.5,), nearest=2.5),
    RealSequence("mulran_kaist03", "os1_64", 10.0, (0.5,)),
)
_BEAMS = {"hdl64e": (16, 32, 64), "hdl32e": (16, 32), "os1_64": (16, 64)}
_COLORS = {RAW: "#9e9e9e", INTERPOLATION: "#fb8c00", POLI: "#e53935"}
_SIMULATED, _REAL = "simulated places", "real sequences"


@dataclass(frozen=True)
class Options(DriveOptions):
    pairs: int = option(20, "pairs per place and per sequence", least=1)
    runs: Path = option(Path("runs/registration_bench"), RUNS)
    processes: int = option(0, PROCESSES, least=0)
    voxels: bool = option(True, "run rivals with all voxel sizes; otherwise with the largest alone")


@dataclass(frozen=True)
class Job:
    """One system on the pairs of one drive, in one way and with one voxel size."""

    source: DriveSource
    system: str
    way: str
    pairs: int
    voxel: float  # meters
    beams: int

    @property
    def sensor(self) -> str:
        return self.source.sequence.sensor if isinstance(self.source, RealDrive) else self.source.sensor


def run(options: Options) -> Iterator[Report]:
    jobs = jobs_of(options)
    processes = min(options.processes or thread_count(), len(jobs))
    if processes == 1:
        use_one_thread()
        yield report_of([_run_job(options, job) for job in jobs], options)
    else:
        yield report_of(in_processes(partial(_run_job, options), jobs, processes, "registrations"), options)


def jobs_of(options: Options) -> list[Job]:
    """Simulated places with a VLP-16, and real sequences with all their beams and fewer; 64 beams are not made denser."""
    simulated_sequences(("vlp16",), options.places, options.scans, keep=options.drives)  # records missing ones
    sources: list[tuple[DriveSource, int]] = [
        (SimulatedDrive("vlp16", place, options.scans, options.drives), 16) for place in options.places
    ]
    if options.real is not None:
        for real in SEQUENCES:
            kept = _BEAMS[real.sensor]
            sources += [(RealDrive(options.real, replace(real, beams=None if b == kept[-1] else b)), b) for b in kept]
    jobs = []
    for source, beams in sources:
        for way in (RAW, POLI, INTERPOLATION) if beams == 16 else (RAW, POLI) if beams == 32 else (RAW,):
            for system in (KISS_MATCHER, TEASER) if way != RAW else VOXELS:
                voxels = VOXELS[system] if options.voxels else VOXELS[system][-1:]
                jobs += [Job(source, system, way, options.pairs, voxel, beams) for voxel in voxels]
    return jobs


def _run_job(options: Options, job: Job) -> dict[str, Any]:
    """Run a job. For each pair: rotation error in degrees, translation error in meters, seconds of registration only."""
    drive = job.source.open()
    way = denser(job.way, DensifyConfig(model=options.model, purpose="features"), job.sensor, job.beams)
    key = {
        "drive": drive.name, "scans": len(drive), "poses": hashlib.sha256(np.ascontiguousarray(drive.poses).tobytes()).hexdigest(),
        "system": job.system, "voxel": job.voxel, "way": {"name": way.name, **way.about}, "pairs": job.pairs, "most": MOST,
        **(rivals_state() if job.system == KISS_MATCHER else our_state()),
        "weights": weights_digest("lidar") if job.system == OURS else "",
    }  # fmt: skip
    errors = Cache(options.runs).get((), key, lambda: register_pairs(drive, way, job))
    real = isinstance(job.source, RealDrive)
    about = {name: getattr(job, name) for name in ("system", "way", "voxel", "beams")}
    return {"scans": drive.place, "kind": _REAL if real else _SIMULATED, **about, **errors}


def register_pairs(drive: RecordedDrive, way: Denser, job: Job) -> dict[str, list[float]]:
    """Errors and times of each pair; 180 degrees and 1e9 meters if no pose was found."""
    register = registrar(job.system, job.voxel, PRESETS[job.beams])
    rotations, translations, seconds = [], [], []
    for pair in place_pairs(drive.poses, job.pairs, MOST, seed=0):
        # Densify in the sensor frame, then rotate: interpolation depends on the rings.
        dense = [way.apply(Scan(drive.scans[row])).points.astype(np.float64) for row in (pair.source, pair.target)]
        begin = perf_counter()
        T = register(dense[0] @ pair.T_turned_source[:3, :3].T, dense[1])
        seconds.append(perf_counter() - begin)
        rotations.append(180.0 if T is None else float(np.degrees(np.linalg.norm(log(inverse(pair.T_target_turned) @ T)[:3]))))
        translations.append(1e9 if T is None else float(np.linalg.norm(T[:3, 3] - pair.T_target_turned[:3, 3])))
    return {"rotations_deg": rotations, "translations_m": translations, "seconds": seconds}


# --- table

_TABLE = Table(
    [Column("scans", "{scans}"), Column("beams", "{beams}"), Column("pairs", "{pairs}")],
    across="contestant",
    cell=lambda record: f"{record['success']:.0f} %",
    highest="success",
    order=(*(f"{system}, {way}" for system in (KISS_MATCHER, TEASER) for way in (RAW, INTERPOLATION, POLI)), OURS),
)


def report_of(records: Sequence[Record], options: Options) -> Report:
    """Success of each system at its best voxel size: all simulated and all real pairs by beams, then each place and sequence."""
    best = best_voxels(records)
    chosen = [r for r in records if best[r["system"], r["way"]] == r["voxel"]]
    shown = [_pooled(group, f"**{r['kind']}**") for r, group in _groups(chosen, "kind", "beams", "system", "way")]
    shown.sort(key=lambda r: (r["scans"], r["beams"]))
    shown += [_pooled(group, r["scans"]) for r, group in _groups(chosen, "scans", "beams", "system", "way")]
    voxels = "; ".join(f"{system} {way} {voxel:g} m" for (system, way), voxel in best.items() if voxel)
    notes = [
        f"Share of the pairs registered within {WITHIN[0]:g}° and {WITHIN[1]:g} m. Pairs are drawn at random from all that are at "
        f"most {MOST:g} m apart, {options.pairs} per place and sequence; the source is rotated about its vertical axis by any "
        "angle. Real pairs are judged by the given poses.",
        (
            f"Each rival has one voxel size on raw scans and one in each denser way: the best over all pairs of this table, of "
            f"{_listed(KISS_MATCHER)} m for {KISS_MATCHER} and {_listed(TEASER)} m for {TEASER}. Chosen: {voxels}."
            if options.voxels
            else f"Rivals have the voxel size that was best in all ways when all were run: {voxels}."
        )
        + " `poli.register` has the preset of a sensor with that many beams.",
        "KISS-Matcher runs with its defaults at that voxel size. TEASER-like: PCA normals of 16 neighbors, FPFH with a radius of "
        "five voxels, mutual matches, maximum clique, GNC-TLS with one voxel as noise bound.",
        f"{POLI}: `poli densify --purpose features`, which was chosen on kitti_raw_0013. {INTERPOLATION}: rows between the rings "
        "of the range image, a stand-in for learned upsampling. The best in a row is bold.",
        *_times(chosen),
    ]
    plot = Plot("scans", "success", "way", "", "% within 5° and 2 m", "system", "bars", colors=_COLORS, ylim=(0, 103), stacked=True)
    few = [_pooled(group, r["scans"]) for r, group in _groups([r for r in chosen if r["beams"] == 16], "scans", "system", "way")]
    plots = {"registration": partial(plot.draw, few)}
    summary = {"voxels": {f"{system} {way}": voxel for (system, way), voxel in best.items()}}
    return Report("registration", "Global registration of scans", records, _TABLE, notes, summary, plots, shown)


def _listed(system: str) -> str:
    return ", ".join(f"{voxel:g}" for voxel in VOXELS[system])


def best_voxels(records: Sequence[Record]) -> dict[tuple[str, str], float]:
    """The voxel size with which a system registers most of all pairs, by system and way."""
    found: dict[tuple[str, str], dict[float, list[float]]] = {}
    for r in records:
        share = success(r["rotations_deg"], r["translations_m"], *WITHIN)
        found.setdefault((r["system"], r["way"]), {}).setdefault(r["voxel"], []).append(share * len(r["rotations_deg"]))
    return {key: max(by_voxel, key=lambda voxel: sum(by_voxel[voxel])) for key, by_voxel in found.items()}


def _groups(records: Sequence[Record], *names: str) -> Iterator[tuple[Record, list[Record]]]:
    """Yield the records that agree in these fields, with the first of them."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        groups.setdefault(tuple(r[name] for name in names), []).append(r)
    return ((group[0], group) for group in groups.values())


def _pooled(group: Sequence[Record], name: str) -> dict[str, Any]:
    degrees, meters = ([value for r in group for value in r[error]] for error in ("rotations_deg", "translations_m"))
    about = {key: group[0][key] for key in ("beams", "system", "way", "voxel")}
    about["contestant"] = OURS if about["system"] == OURS else f"{about['system']}, {about['way']}"
    return {"scans": name, **about, "pairs": len(degrees), "success": 100.0 * success(degrees, meters, *WITHIN)}


def _times(records: Sequence[Record]) -> list[str]:
    """Median times of one registration on one thread, as ratios to KISS-Matcher on raw scans, since machines differ."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for r in (r for r in records if r["beams"] == 16):
        seconds.setdefault((r["system"], r["way"]), []).extend(r["seconds"])
    medians = {key: float(np.median(values)) for key, values in seconds.items()}
    unit = medians.get((KISS_MATCHER, RAW))
    if not unit:
        return []
    ratios = "; ".join(f"{system} {way} {value / unit:.1f}" for (system, way), value in medians.items())
    return [f"Time of one registration of 16 beams, as a multiple of KISS-Matcher on raw scans (without densifying): {ratios}."]
