"""The supplement's pictures: ellipsoids by sensor and voxel size (S1), registered pairs (S3), denser scans (S4, SE3).

Each picture is of a scan in the middle of a sequence; of HeLiPR if it is given, otherwise of KITTI. S2 shows maps of GLIM: table4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data.place_pairs import place_pairs
from benchmarks.experiments.paper import model_for
from benchmarks.experiments.paper.sequences import TESTED, Source, Streamed, sources
from benchmarks.experiments.paper.table2 import MOST, OURS, PAPER, PCA, Job, denser
from benchmarks.report import Column, Report, Table
from benchmarks.rivals.denser_scans import RAW, densified
from benchmarks.rivals.registrars import KISS_MATCHER, registrar
from poli.densification import DensifyConfig
from poli.estimation import estimate
from poli.se3 import inverse
from poli.viewer import Camera, Panel, draw_panels, write_png
from poli.voxels import voxel_downsample

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

VOXELS = {"velodyne": (0.2, 0.5), "ouster": (1.0, 1.5, 2.0), "hdl64e": (0.2, 0.5, 1.0)}  # meters
_MERGED = 10  # scans before and after one, merged as the truth
_DENSE = 0.1  # meters: voxels of the truth
_REGISTERED = 4  # pairs
_VOXEL = 0.3  # meters, of KISS-Matcher, as it suggests outdoors
_WIDTH, _HEIGHT = 560, 380  # pixels of a panel
_CAMERA = Camera(eye=(-16.0, -3.0, 9.0), target=(10.0, 1.0, -1.0), field_of_view=60.0)
_ABOVE = Camera(eye=(0.0, -1.0, 90.0), target=(0.0, 0.0, 0.0), field_of_view=60.0)
_BLUE, _RED = (0.1, 0.3, 0.8), (0.85, 0.2, 0.1)

_TABLE = Table([Column("figure", "{figure}"), Column("of", "{sequence}")], [Column("shows", "{shows}")])


def run(options: Options) -> Iterator[Report]:
    every = sources(options, sensors=("velodyne", "ouster"), beams=16)
    first = next((source for source in every if source.column in TESTED), every[0])
    spinning = [source for source in every if source.sensor != "ouster"]
    found: list[tuple[str, str, str, Callable[[Path], None]]] = [
        ("S1", first.name, "ellipsoids by sensor and voxel size", partial(_ellipsoids, options, first)),
        ("S3", first.name, f"pairs, registered by {KISS_MATCHER} raw and denser", partial(_pairs, options, spinning)),
        ("S4", ", ".join(s.name for s in spinning), "scans made denser", partial(_denser, options, spinning)),
    ]
    if options.tqc and options.ttqc:
        found.append(("SE3", first.name, "samples of two likelihoods", partial(_likelihoods, options, first)))
    records = [{"figure": figure, "sequence": of, "shows": shows} for figure, of, shows, _ in found]
    plots: dict[str, Any] = {f"paper_gallery_{figure}": draw for figure, _, _, draw in found}
    yield Report("paper_gallery", "Pictures of the supplement", records, _TABLE, _NOTES, plots=plots)


_NOTES = [
    f"truth: the scans up to {_MERGED} before and after, merged under the given poses; moving objects are smeared in it",
    "denser: by PCA and by POLI, as in table2",
]


def _ellipsoids(options: Options, source: Source, path: Path) -> None:
    model, full = model_for(options, "gallery"), replace(source, beams=None).open()
    panels = [Panel("Truth", _truth(full, len(full) // 2), caption=f"{source.name}, merged scans")]
    for same in [s for s in sources(options, sensors=("velodyne", "ouster"), beams=16) if s.name == source.name]:
        cloud = _middle(same.open())
        for voxel in VOXELS[same.sensor]:
            field = estimate(voxel_downsample(cloud, voxel), model)
            panels.append(Panel("POLI", field=field, caption=f"{same.label}, voxels of {voxel:g} m"))
    _write(path, panels)


def _denser(options: Options, chosen: Sequence[Source], path: Path) -> None:
    panels = []
    for source in chosen:
        scans = source.open()
        scan = scans[len(scans) // 2].clean()
        for way in (RAW, PCA, PAPER, OURS):
            dense = denser(options, Job(source, way)).apply(scan)
            panels.append(Panel(way, dense, caption=f"{source.label}, {len(dense)} points"))
    _write(path, panels, columns=4)


def _pairs(options: Options, chosen: Sequence[Source], path: Path) -> None:
    """Both clouds of a pair before registration, and after it, raw and denser."""
    panels: list[Panel] = []
    for source in [chosen[i % len(chosen)] for i in range(_REGISTERED)]:
        scans, number = source.open(), len(panels) // 3 // len(chosen)
        pair = place_pairs(scans.poses, number + 1, MOST, options.seed)[-1]
        raw = [scans[row].clean() for row in (pair.source, pair.target)]
        shown: list[tuple[str, np.ndarray]] = [("Before", np.eye(4))]
        for way in (RAW, OURS):
            clouds = [denser(options, Job(source, way)).apply(scan).points.astype(np.float64) for scan in raw]
            T = registrar(KISS_MATCHER, _VOXEL, "")(*clouds)
            shown.append((f"{KISS_MATCHER} {way}", np.eye(4) if T is None else T))
        for name, T in shown:
            off = float(np.linalg.norm((inverse(pair.T_target_source) @ T)[:3, 3]))
            moved, target = (cloud.points.astype(np.float64) for cloud in (raw[0].transform(T), raw[1]))
            colors = np.repeat([_RED, _BLUE], [len(moved), len(target)], axis=0)
            panels.append(Panel(name, np.concatenate([moved, target]), colors=colors, caption=f"{source.label}, {off:.2f} m off"))
    _write(path, panels, columns=3, camera=_ABOVE)


def _likelihoods(options: Options, source: Source, path: Path) -> None:
    scan = _middle(source.open())
    panels = []
    for name, model in (("T-Q-C", options.tqc[0]), ("T-T-Q-C", options.ttqc[0])):
        dense = densified(name, DensifyConfig(model=str(model), per_point=50, max_sigma=3.0, flat=False)).apply(scan)
        panels.append(Panel(name, dense, caption=source.label))
    _write(path, panels)


def _middle(scans: Streamed) -> Any:
    return scans[len(scans) // 2].clean()


def _truth(scans: Streamed, row: int) -> np.ndarray:  # (N, 3)
    """Scans around one, in its frame."""
    rows = range(max(0, row - _MERGED), min(len(scans), row + _MERGED + 1))
    T = [inverse(scans.poses[row]) @ scans.poses[other] for other in rows]
    moved = [scans[other].clean().transform(T_row_other).points for other, T_row_other in zip(rows, T, strict=True)]
    return voxel_downsample(np.concatenate(moved).astype(np.float64), _DENSE).points


def _write(path: Path, panels: Sequence[Panel], columns: int = 2, camera: Camera = _CAMERA) -> None:
    rows = [draw_panels(panels[i : i + columns], 2.0, camera, columns * _WIDTH, _HEIGHT) for i in range(0, len(panels), columns)]
    write_png(path, np.concatenate(rows, axis=0))
