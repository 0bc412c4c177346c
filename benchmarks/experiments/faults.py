"""Faults of real LiDARs: range noise, beam offsets, missing and mixed returns, returns of the carrier, movers, and sampling.

The same measures of simulated scans, whose faults are known, tell how far to trust them.

Example: python -m benchmarks faults --real sequences
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.data.beam_rasters import SENSOR_OF, Raster, raster, raster_of, rasters, usable_rows
from benchmarks.metrics.missing_returns import MIXING, continuous_steps, depth_edges
from benchmarks.metrics.range_noise import INCIDENCES, RANGES, Scatter, bins, local_sigmas, residuals, scatter
from benchmarks.metrics.scan_sampling import OWN_REACH, motion, movers, own_returns, sampling
from benchmarks.options import REAL, option
from benchmarks.report import Column, Report, Table
from poli.data.scan_pairs import HELD_OUT_SEEDS
from poli.data.simulate import SPINNING
from poli.data.simulate.sweep import scan_of

_SIMULATED = ("hdl64e", "hdl32e", "os1_64")
_PLACE = "town"
_NEAREST = {"HDL-32E": OWN_REACH}  # meters; nearer returns of nuScenes are the car itself
_CONSECUTIVE = 12  # scans for the phase of the azimuth


@dataclass(frozen=True)
class Options:
    real: Path | None = option(None, REAL)
    scans: int = option(8, "scans per sequence for noise and missing returns", least=1)
    compared: int = option(4, "scans per sequence for moving objects, each compared with four others", least=1)
    simulated: int = option(3, "simulated scans per sensor; 0: none", least=0)


def run(options: Options) -> Iterator[Report]:
    made: list[dict[str, Any]] = [
        {"name": f"simulated {name}", "sensor": name, **judged(simulated(name, options.simulated))}
        for name in track(_SIMULATED if options.simulated else (), "simulated scans")
    ]
    names = [] if options.real is None else [name for name in SENSOR_OF if (options.real / "sequences" / name).is_dir()]
    records: list[dict[str, Any]] = []
    sampled: list[dict[str, Any]] = []
    for name in track(names, "real sequences"):
        assert options.real is not None
        scans = rasters(options.real, name, options.scans)
        near = _NEAREST.get(SENSOR_OF[name], 0.0)
        record = judged([scan.select(scan.ranges > near) for scan in scans])
        moving = movers(options.real, name, options.compared)
        record |= {**own_returns(options.real, name), "movers": moving.share, "observed": moving.observed}
        records.append({"name": name, "sensor": SENSOR_OF[name], **record})
        rows = usable_rows(options.real, name)[:_CONSECUTIVE]
        consecutive = sampling([raster(options.real, name, row) for row in rows])
        sampled.append({"name": name, "sensor": SENSOR_OF[name], **consecutive, **motion(options.real, name)})
    records += made
    yield _summary(records)
    yield _bins(records, "noise", "Range noise of real LiDARs", "{sigma_cm:.2f} / {within_ring_cm:.2f}", _NOISE_NOTES)
    yield _bins(records, "dropouts", "Returns missing from continuous surfaces", "{missing:%2}", _DROPOUT_NOTES)
    if sampled:
        yield _sampling(sampled)


def simulated(name: str, count: int) -> list[Raster]:
    """Held-out scans of the simulator."""
    sensor, scans = SPINNING[name], []
    for number in range(count):
        scan = scan_of(_PLACE, sensor, HELD_OUT_SEEDS + number, along=0.2 + 0.6 * number / count)
        column = np.round(scan.fields["time"] * sensor.rate * sensor.steps)
        scans.append(raster_of(scan.points, scan.fields["ring"], column, sensor.steps))
    return scans


def judged(scans: Sequence[Raster]) -> dict[str, Any]:
    """Range errors, missing returns and mixed returns of the scans of one sensor."""
    found, steps, edges = residuals(scans), continuous_steps(scans), depth_edges(scans)
    sigmas = local_sigmas(found)
    everything = np.ones(len(found.error), bool)
    cells: list[dict[str, Any]] = []
    axes = (("range", "m", RANGES, found.ranges, steps.ranges), ("incidence", "deg", INCIDENCES, found.incidence, steps.incidence))
    for kind, unit, edge_values, of_return, of_step in axes:
        for k, (low, high) in enumerate(pairwise(edge_values)):
            noise = _centimeters(scatter(found, bins(of_return, edge_values) == k, sigmas))
            here = bins(of_step, edge_values) == k
            missing = {"missing": 100.0 * steps.share(here), "steps": int(here.sum())}
            cells.append({"kind": kind, "bin": f"{low:g}-{high:g} {unit}", **noise, **missing})
    return {
        **_centimeters(scatter(found, everything, sigmas)),
        "on_planes": len(found.error) / sum(len(scan.points) for scan in scans),
        "beam_offset_cm": 100.0 * found.beam_sigma,
        "beam_tilt_deg": found.tilt_sigma,
        "offsets_cm": [round(100.0 * float(v), 2) for v in found.offsets],
        "rings_measured": len(found.rings),
        "missing": 100.0 * steps.share(),
        "run_length": steps.run_length(),
        "singles": steps.singles(),
        "edges": edges.clean + edges.between,
        "between": 100.0 * edges.share,
        "bins": cells,
    }


def _centimeters(found: Scatter) -> dict[str, Any]:
    values = asdict(found)
    scaled = {f"{name}_cm": 100.0 * values[name] for name in ("sigma", "std", "within_ring")}
    return {"count": found.count, **scaled, "beyond_3": 100.0 * found.beyond_3, "beyond_5": 100.0 * found.beyond_5}


def _summary(records: Sequence[dict[str, Any]]) -> Report:
    carrier = ("near", "own_of_near", "own", "movers", "observed")
    shown = [{**{name: float("nan") for name in carrier}, **record} for record in records]
    table = Table(
        [Column("sequence", "{name}"), Column("sensor", "{sensor}")],
        [
            Column("beam offset, cm", "{beam_offset_cm:.2f}"),
            Column("noise, cm", "{sigma_cm:.2f} / {within_ring_cm:.2f}"),
            Column("beyond 3, 5 sigma", "{beyond_3:%}, {beyond_5:%}"),
            Column("missing", "{missing:%2}"),
            Column("run", "{run_length:.2f}"),
            Column("edges mixed", "{between:.0f} % of {edges}"),
            Column("own of near", "{own_of_near:share}"),
            Column("own of all", lambda r: "-" if np.isnan(r["own"]) else f"{100 * r['own']:.2f} %"),
            Column("movers", lambda r: "-" if np.isnan(r["movers"]) else f"{100 * r['movers']:.2f} %"),
        ],
    )
    notes = [
        "beam offset: standard deviation over the rings of the constant error of the range, relative to a line across six rings; "
        "simulated beams have none, so theirs is the error of the measure",
        "noise: 1.48 times the median absolute error along the ray, from planes of 6 rings by 16 columns / from second differences "
        "along a ring, which are free of the surface's shape; the simulated sensors have 2.0, 2.0 and 2.5 cm",
        "beyond 3, 5 sigma: share of errors from planes beyond as many sigma of the same range and incidence",
        "missing: share of returns missing between returns of one continuous surface, in gaps of at most 20; the simulated sensors "
        "lose 1 %; run: how many are missing one after another, on average (independent losses: 1.01)",
        f"edges mixed: share of edges, {MIXING[0]:g} to {MIXING[1]:g} m deep and with straight sides, that have a return between "
        "the two surfaces; objects that small count, too, so compare with the simulated scans",
        f"own: returns within {OWN_REACH:g} m in voxels of 5 cm that are occupied in more than 60 % of the scans, as share of the "
        "returns within that distance and of all; the floor below a handheld sensor may be among them",
        "movers: share of the returns that lie in free space of at least two of the scans 5 and 10 before and after, under refined "
        "poses; of those returns that two scans observe",
        "blooming around reflectors is not measured: only two of the sequences have intensities",
    ]
    return Report("faults", "Faults of real LiDARs", records, table, notes, shown=shown)


_NOISE_NOTES = (
    "centimeters: 1.48 times the median absolute error from planes / from second differences along the rings; - for fewer than 100 "
    "returns. The first includes the shape of the surface and, beyond 10 m and 75 degrees, the uncertain tilts of the beams",
)
_DROPOUT_NOTES = ("share of returns missing between returns of one continuous surface; - for fewer than 100 steps",)


def _bins(records: Sequence[dict[str, Any]], name: str, title: str, cell: str, notes: Sequence[str]) -> Report:
    flat = [{"name": record["name"], "sensor": record["sensor"], **one} for record in records for one in record["bins"]]
    table = Table([Column("sequence", "{name}"), Column("sensor", "{sensor}")], across="bin", cell=cell)
    return Report(f"faults_{name}", title, flat, table, notes)


def _sampling(records: Sequence[dict[str, Any]]) -> Report:
    table = Table(
        [Column("sequence", "{name}"), Column("sensor", "{sensor}")],
        [
            Column("rings", "{rings}"),
            Column("elevations", lambda r: f"{min(r['elevations']):.1f} to {max(r['elevations']):.1f}"),
            Column("step", "{step:deg}"),
            Column("jitter", "{jitter:deg}"),
            Column("regular", "{regular:.2f}"),
            Column("locked", "{locked:.2f}"),
            Column("translation, m", "{translation_05:.2f}, {translation_50:.2f}, {translation_95:.2f}"),
            Column("rotation, degrees", "{rotation_05:.2f}, {rotation_50:.2f}, {rotation_95:.2f}"),
        ],
    )
    notes = [
        "step, jitter: median and standard deviation of the azimuth between neighbors on a ring",
        "regular: 1 if the azimuths of a ring lie on a lattice; locked: 1 if this lattice is the same in consecutive scans, about "
        f"{1 / np.sqrt(_CONSECUTIVE):.2f} if its phase is random",
        "HDL-64E: azimuths are multiples of 0.09 degrees, of which a step has one or two, so its lattice is locked, but not "
        "its rays",
        "E1R: a raster of 192 columns and 144 rows, the same in every scan up to the slight turns of the hand that holds it, since "
        "scans are deskewed; measured while it was held still",
        "translation, rotation: 5 %, median and 95 % between consecutive scans. Elevations of all rings are in the JSON file",
    ]
    return Report("faults_sampling", "Rays and motion of real LiDARs", records, table, notes)
