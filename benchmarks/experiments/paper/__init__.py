"""The paper's tables and figures on your own data, with the paper's protocol and its numbers beside ours.

NAME is one of: table1 to table4, table_s1 (of the supplement), objects, odometry, trajectories, runtime, step, relaxation, noise,
gallery, or all. Outcomes are kept, so an interrupted run continues, and sequences are read scan by scan, so memory stays small.

Example: python -m benchmarks paper table1 --kitti kitti --helipr helipr --processes 8
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from benchmarks.options import MODEL, PROCESSES, RUNS, option
from benchmarks.report import Report
from poli.errors import InputError, MissingExtra, did_you_mean

LAYOUTS = {  # what to download for each dataset, and how it must lie
    "kitti": "KITTI odometry (cvlibs.net/datasets/kitti: velodyne laser data, calibration files and ground truth poses) as "
    "DIR/sequences/00/velodyne/000000.bin, DIR/sequences/00/calib.txt and DIR/poses/00.txt",
    "helipr": "sequences of HeLiPR (sites.google.com/view/heliprdataset: LiDAR and LiDAR_GT, for table4 also Inertial_data) as "
    "DIR/KAIST04/LiDAR/Velodyne/*.bin and DIR/KAIST04/LiDAR_GT/Velodyne_gt.txt",
    "stanford": "the Stanford 3D Scanning Repository (graphics.stanford.edu/data/3Dscanrep: bunny, armadillo, asian dragon, lucy, "
    "thai statue; dragon and happy buddha) as DIR/train/*.ply and DIR/test/*.ply",
}


class Experiment(NamedTuple):
    """One of the names: the function that yields its reports, and what it needs."""

    function: str  # "module:function", called with the options
    folders: tuple[str, ...] = ()  # datasets, of which at least one is needed; none: it needs no data
    models: tuple[str, ...] = ("lidar",)  # shipped models without --model


_HERE = "benchmarks.experiments.paper"
NAMES = {
    "objects": Experiment(f"{_HERE}.objects:run", ("stanford",), ("objects",)),
    "odometry": Experiment(f"{_HERE}.odometry:run", ("helipr", "kitti")),
    "trajectories": Experiment(f"{_HERE}.trajectories:run", ("helipr", "kitti")),
    "table1": Experiment(f"{_HERE}.table1:run", ("helipr", "kitti")),
    "table2": Experiment(f"{_HERE}.table2:run", ("helipr", "kitti")),
    "table3": Experiment(f"{_HERE}.table3:run", ("kitti",)),
    "table4": Experiment(f"{_HERE}.table4:run", ("helipr", "kitti")),
    "runtime": Experiment(f"{_HERE}.runtime:run"),
    "step": Experiment(f"{_HERE}.step:run"),
    "relaxation": Experiment(f"{_HERE}.relaxation:run", (), ()),
    "noise": Experiment(f"{_HERE}.noise:run", ("stanford",), ()),
    "table_s1": Experiment(f"{_HERE}.table_s1:run", ("helipr", "kitti"), ()),
    "gallery": Experiment(f"{_HERE}.gallery:run", ("helipr", "kitti")),
}
ALL = "all"


@dataclass(frozen=True)
class Options:
    name: str = option(ALL, "which table or figure", argument=True)
    kitti: Path | None = option(None, "folder of KITTI odometry, with sequences and poses")
    helipr: Path | None = option(None, "folder of the sequences of HeLiPR")
    stanford: Path | None = option(None, "folder of the Stanford models, with train and test")
    sequences: tuple[str, ...] = option((), "names of sequences, separated by commas; without it, those of the paper")
    model: str | None = option(None, f"{MODEL}; without it, the shipped one for the task")
    trajectories: Path | None = option(None, "folder of trajectories that other systems wrote: NAME/SEQUENCE.txt, TUM or KITTI")
    tqc: tuple[Path, ...] = option((), "models trained with the T-Q-C likelihood, for table_s1")
    ttqc: tuple[Path, ...] = option((), "models trained with the T-T-Q-C likelihood, for table_s1")
    frames: tuple[int, ...] = option((), "scans between the poses that are compared; without it, those of the paper", least=1)
    voxels: tuple[float, ...] = option((), "voxel sizes in meters; without it, those of the paper", above=0.0)
    beams: int = option(0, "keep this many beams of KITTI's 64; 0: as the paper does in each table", least=0)
    scans: int = option(0, "use the first scans of each sequence only; 0: all", least=0)
    models: tuple[str, ...] = option((), "objects: several models beside each other, the first as POLI; without it, --model")
    pairs: int = option(0, "pairs of scans per sequence, or of clouds per object and number of points; 0: as in the paper", least=0)
    sizes: tuple[int, ...] = option(
        (), "points of clouds, for objects, runtime and step; without it, those of the paper", least=100
    )
    sigmas: float = option(10.0, "sigmas of the model per sigma in the paper; 1 for the checkpoints of its authors", above=0.0)
    repeats: int = option(11, "runs of which the median is reported, for runtime and step", least=1)
    steps: int = option(0, "steps of each training run of noise and relaxation; 0: as configured", least=0)
    grid: bool = option(False, "run all settings of scan-to-scan rivals, and show each at its best")
    seed: int = option(0, "random seed", least=0)
    runs: Path = option(Path("runs/paper"), RUNS)
    processes: int = option(1, PROCESSES, least=0)

    def __post_init__(self) -> None:
        if self.name not in (*NAMES, ALL):
            known = [*NAMES, ALL]
            raise InputError(f"name is {self.name!r}; choose from {', '.join(known)}{did_you_mean(self.name, known)}")

    @property
    def chosen(self) -> list[str]:
        """The names to run."""
        return list(NAMES) if self.name == ALL else [self.name]


class NotThere(InputError):
    """A name lacks its folder, or a chosen sequence is not in it. `all` goes on with the next name."""


def models_of(options: Options) -> list[str]:
    """The models whose weights are recorded with the reports."""
    if options.model is not None:
        return [options.model]
    return list(dict.fromkeys(model for name in options.chosen for model in NAMES[name].models))


def model_for(options: Options, name: str) -> str:
    """The model of one of the names: the given one, or the shipped one for its task."""
    return options.model or NAMES[name].models[0]


def run(options: Options) -> Iterator[Report]:
    for name in options.chosen:
        module, _, function = NAMES[name].function.partition(":")
        try:
            if missing := what_is_missing(options, name):
                raise NotThere(missing)
            yield from getattr(import_module(module), function)(options)
        except (NotThere, MissingExtra) as error:
            if options.name != ALL:
                raise
            print(f"{name}: not run; {error}")


def what_is_missing(options: Options, name: str) -> str:
    """A sentence that says which folder a name needs, what to download, and how it must lie; empty if it has one."""
    needed = NAMES[name].folders
    if not needed or any(getattr(options, folder) is not None for folder in needed):
        return ""
    return f"{name} needs " + ", or ".join(f"--{folder} DIR: {LAYOUTS[folder]}" for folder in needed)
