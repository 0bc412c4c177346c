"""How the voxel grids of two real scans decide how well they match, and whether the sizes know it.

The partner of each scan is voxelized again in grids that start elsewhere: where they coincide with the scan's own grid, a quarter
of a voxel beside it in all three axes, and half a voxel. Scene, poses and sensors stay the same.

Example: python -m benchmarks grids --real sequences
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.data.real_sequences import RealConfiguration, RealPair, real_configurations, real_pairs, returns_of
from benchmarks.experiments.geometry import likelihoods
from benchmarks.metrics.likelihood import Matches, gate_for
from benchmarks.options import MODEL, option
from benchmarks.report import Record, Report, Table, column_list
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import load_model
from poli.estimation.arrangement import Viewpoint
from poli.estimation.grid import grid_inputs, grid_shifts
from poli.estimation.motion import UP, Known, motion_inputs
from poli.voxels import voxel_downsample

_SHIFTS = (0.0, 0.25, 0.5)  # voxels, along each axis
_PAIRS = 6  # per sequence
_VIEW = Viewpoint(np.zeros(3), UP)


@dataclass(frozen=True)
class Options:
    model: str = option("lidar", MODEL)
    real: Path | None = option(None, "folder of real sequences in the layout of KITTI odometry (required)")
    voxels: tuple[float, ...] = option((0.2, 0.5, 1.0), "voxel sizes in meters")
    beams: int = option(16, "beams that are kept of an HDL-64E; other sensors keep all of theirs")


_TABLE = Table(
    column_list(
        **{"sequence, voxel": "{name}", "shift, voxels": "{shift:g}"},
        **{"grids known": "{known_nll:+.2f} / {known_median:.2f}", "only the motion": "{motion_nll:+.2f} / {motion_median:.2f}"},
    )
)


def run(options: Options) -> Iterator[Report]:
    if options.real is None:
        raise InputError("grids: needs real sequences; name their folder with --real")
    records: list[Record] = []
    for one in track(real_configurations(options.voxels), "real sequences"):
        if one.beams == (options.beams if one.sequence.startswith("kitti") else None):
            records += compared(options.real, one, options.model)
    notes = [
        "NLL in nats per match under 0.9 N(d; 0, 2C) + 0.1 N(d; 0, 1 m^2 I) / median of d'(2C)^-1 d (2.37 when calibrated); "
        f"{_PAIRS} pairs per sequence",
        "shift: between the grid of a scan and that of its partner, along all three axes, in voxels. Where the sensor turned "
        "between the scans, it holds at the sensor, and points far from it are shifted otherwise",
        "grids known: the sizes of `poli.estimate(scan, motion=T)`, told where the partner's grid starts. Only the motion: the "
        "same, not told about grids",
    ]
    yield Report("grids", "Voxel grids and the match of real scans", records, _TABLE, notes)


def compared(root: Path, configuration: RealConfiguration, model: str) -> list[Record]:
    """Likelihood and median of a configuration at each shift, with the grids known and with the motion alone."""
    pairs = real_pairs(root, configuration, _PAIRS)
    partners = [returns_of(root, configuration, pair.row + 1) for pair in pairs]
    records: list[Record] = []
    for shift in _SHIFTS:
        found = [_fields(model, configuration.voxel, pair, p, shift) for pair, p in zip(pairs, partners, strict=True)]
        matches, *fields = zip(*found, strict=True)
        record: dict[str, Any] = {"name": configuration.label, "shift": shift}
        for way, judged in zip(("known", "motion"), fields, strict=True):
            losses, squares = likelihoods(matches, judged)
            record |= {f"{way}_nll": float(losses.mean()), f"{way}_median": float(np.median(squares))}
        records.append(record)
    return records


def _fields(model: str, voxel: float, pair: RealPair, returns: np.ndarray, shift: float) -> tuple[Matches, Ellipsoids, Ellipsoids]:
    """Matches with the partner in a shifted grid; the field that knows the grids, and the one that does not."""
    T, q = pair.T_q_p, pair.q.astype(np.float64)
    origin = -T[:3, :3].T @ T[:3, 3] - shift * voxel  # where q's grid starts, moved on by the shift
    p = voxel_downsample(returns - origin, voxel).points + origin
    network = load_model(model)
    known = Known(np.concatenate([motion_inputs(T, q), grid_inputs(voxel)]), grid_shifts(voxel, T, q, origin))
    untold = Known(np.concatenate([motion_inputs(T, q), grid_inputs(None)]))
    fields = [Ellipsoids(q, network.estimate(q, _VIEW, known=what).covariances) for what in (known, untold)]
    return Matches.of(q, p, T, gate_for(voxel)), fields[0], fields[1]
