"""Run the whole demo and write its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poli import __version__
from poli.errors import FormatError
from poli.io.atomic import atomic_path
from poli.io.formats import write
from poli.io.tables import write_json
from poli.io.trajectory_files import TrajectoryWriter
from poli.viewer.demo import pictures
from poli.viewer.demo.drive import SCANS, DriveFigures, compare_drive
from poli.viewer.demo.pair import PairFigures, compare_pair
from poli.viewer.demo.pictures import write_demo_page
from poli.viewer.demo.surfaces import DensityFigures, NormalFigures, compare_density, compare_normals
from poli.viewer.demo.town import PLACE, SEED, SENSOR_NAME, embedded_scans, town_world
from poli.viewer.picture import write_png

PAGE = "index.html"
SUMMARY = "summary.json"


@dataclass(frozen=True)
class Summary:
    normals: NormalFigures
    density: DensityFigures
    pair: PairFigures
    drive: DriveFigures
    seconds: float  # total, including compilation
    files: tuple[str, ...]  # in the folder, in the order of writing

    def as_json(self) -> dict[str, Any]:
        about = {"poli": __version__, "place": PLACE, "seed": SEED, "sensor": SENSOR_NAME}
        return {**about, **asdict(self), "median_normal_error_lower": self.normals.lower}


def run_demo(
    out: Path,
    tell: Callable[[str, float], None] = lambda *_: None,
    page_is_ready: Callable[[Path], None] = lambda _: None,
    scans: int = SCANS,
) -> Summary:
    """Run the demo and write its files to `out`, each atomically; files of an earlier run are replaced.

    `tell` is called with the current step and the share of the work done, measured by the time of a first run; `page_is_ready`
    is called once, as soon as the page can be opened.
    """
    begin = time.perf_counter()
    files = _Files(out)
    embedded = embedded_scans()
    given = embedded.given
    write(given, files.new("scan.ply"))  # first, to fail early if the folder is not writable

    tell("ellipsoids by POLI and by PCA", 0.02)
    normals, fields = compare_normals(embedded.scan)
    fields.poli.write_splat(files.new("splats.ply"))
    for name, picture in pictures.scan_pictures(fields):
        write_png(files.new(name), picture)
    page = files.new(PAGE)
    write_demo_page(page, fields, normals)
    page_is_ready(page)

    tell("the town, as ground truth", 0.12)
    world = town_world()
    tell("a denser scan", 0.25)
    density, dense = compare_density(given, embedded.T_world_scan, world)
    write(dense, files.new("densified.ply"))
    write_png(files.new("densified.png"), pictures.density_picture(dense, len(given)))

    tell("the pose between two scans", 0.3)
    pair_figures, pair = compare_pair(given, embedded.other, embedded.T_scan_other)
    write(pair.source, files.new("scan_turned.ply"))
    write_png(files.new("registered.png"), pictures.pair_picture(pair))

    done = 0

    def step(what: str) -> None:
        nonlocal done
        done += 1
        tell(f"odometry: {what}", 0.8 + 0.17 * done / (3 * scans))

    tell("odometry", 0.8)
    drive, driven = compare_drive(world, scans, step)
    for name, poses in (("poses_tum.txt", driven.poli), ("truth_tum.txt", driven.truth)):
        _write_poses(files.new(name), poses, driven.stamps)
    tell("the last pictures", 0.97)
    write_png(files.new("trajectory.png"), pictures.drive_picture(driven))

    path = files.new(SUMMARY)
    summary = Summary(normals, density, pair_figures, drive, time.perf_counter() - begin, tuple(files.names))
    write_json(path, summary.as_json())
    tell("done", 1.0)
    return summary


class _Files:
    """The output folder, created if needed, and the names of the files written to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = "it is not a folder" if folder.exists() else error.strerror or error
            raise FormatError(f"{folder}: cannot be created: {why}; give another folder") from None

    def new(self, name: str) -> Path:
        self.names.append(name)
        return self.folder / name


def _write_poses(path: Path, poses: np.ndarray, stamps: Sequence[int]) -> None:  # (M, 4, 4)
    with atomic_path(path) as temporary, TrajectoryWriter(temporary, "tum", replace=True) as writer:
        for stamp, T in zip(stamps, poses, strict=True):
            writer.append(T, stamp)
