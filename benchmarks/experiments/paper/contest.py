"""Running odometry on streamed sequences: each run is kept, and runs are spread over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from rich.progress import track

from benchmarks.cache import Cache
from benchmarks.experiments.paper.sequences import Source, Streamed
from benchmarks.metrics.odometry import Rpe
from benchmarks.parallel import in_processes
from benchmarks.rivals.odometry_contestants import Contestant
from poli.errors import InputError
from poli.io.trajectory_files import read_kitti, read_tum
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan
from poli.threads import thread_count

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")

PAIRS = ("consecutive", "all")  # evo's default, and its --all_pairs
FRAMES = 100  # scans between the poses that the paper compares
_TOLERANCE = 10_000_000  # nanoseconds between the stamps of a scan and of its pose, as evo has it
_FEWEST = 0.5  # of the scans that need a pose


@dataclass(frozen=True, eq=False)
class Found:
    """A trajectory with the true poses of the same scans."""

    source: Source
    method: str
    setting: str
    voxel: float  # meters; 0: chosen by the method
    poses: np.ndarray  # (M, 4, 4)
    truth: np.ndarray  # (M, 4, 4)

    def errors(self, frames: int, pairs: str) -> Rpe:
        """Relative errors over so many scans; NaN if there are too few."""
        return Rpe.of(relative_errors(self.poses, self.truth, frames, pairs=pairs))  # type: ignore[arg-type]

    def record(self, frames: int, pairs: str) -> dict[str, Any]:
        rpe = self.errors(frames, pairs)
        about: dict[str, Any] = {
            "sequence": self.source.name,
            "case": self.source.label,
            "method": self.method,
            "setting": self.setting,
        }
        about |= {"voxel_m": self.voxel, "frames": frames, "pairs": pairs, "scans": len(self.poses)}
        return {**about, "count": rpe.count, "rpe_m": rpe.meters, "rpe_deg": rpe.degrees, "spread_m": rpe.spread}


def outcome(options: Options, source: Source, contestant: Contestant, scans: Sequence[Scan] | None = None) -> Found:
    """Run a contestant on a sequence, or read the outcome of an earlier run. `scans` replace those of the sequence."""
    streamed = source.open()
    got = Cache(options.runs).streamed(streamed.identity, contestant, streamed if scans is None else scans)
    return Found(source, contestant.method, contestant.setting, contestant.voxel, got.poses, streamed.poses)


def each(options: Options, work: Callable[[Options, _Job], _Answer], jobs: Sequence[_Job], what: str) -> list[_Answer]:
    """Apply `work` to all jobs, in processes if there are several."""
    processes = options.processes or thread_count()
    if processes == 1 or len(jobs) < 2:
        return [work(options, job) for job in track(jobs, what)]
    return in_processes(partial(work, options), jobs, processes, what)


class Untimed(Sequence[Scan]):
    """The scans of a sequence as if their points had been measured at once, for methods from scan to scan, which do not deskew."""

    def __init__(self, scans: Streamed) -> None:
        self.scans = scans

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, row: Any) -> Any:
        scan = self.scans[row]
        return scan.keep(*(name for name in scan.fields if name != "time"))

    def __iter__(self) -> Iterator[Scan]:
        return (self[row] for row in range(len(self)))


# --- trajectories of other systems


def written_by(options: Options, source: Source, method: str) -> Found | str:
    """A trajectory that another system has written for a sequence, or the reason why there is none.

    DIR/METHOD/SEQUENCE.txt is in KITTI's format, with one pose per scan, or in TUM's, matched by stamps. If its poses are not those
    of the LiDAR, DIR/METHOD/extrinsic.txt holds T_body_lidar as one line in KITTI's format.
    """
    if options.trajectories is None:
        return f"{method}: no --trajectories"
    path = options.trajectories / method / f"{source.name}.txt"
    if not path.is_file():
        return f"{method}: no {method}/{path.name} in the folder of --trajectories"
    streamed = source.open()
    rows, poses = _read(path, streamed)
    extrinsic = path.with_name("extrinsic.txt")
    if extrinsic.is_file():
        poses = poses @ read_kitti(extrinsic)[0]
    return Found(source, method, "as its authors run it", 0.0, poses, streamed.poses[rows])


def _read(path: Path, scans: Streamed) -> tuple[np.ndarray, np.ndarray]:  # (M,) rows of the scans, (M, 4, 4)
    lines = [line.split() for line in path.read_text("ascii", errors="replace").splitlines()]
    if len(next((words for words in lines if words and not words[0].startswith("#")), [])) == 12:
        poses = read_kitti(path)
        if len(poses) < len(scans):
            raise InputError(
                f"{path}: {len(poses)} poses for {len(scans)} scans; KITTI's format needs one per scan, TUM's does not"
            )
        return np.arange(len(scans)), poses[: len(scans)]
    stamps, poses = read_tum(path)
    if not len(stamps):
        raise InputError(f"{path}: no poses; write the trajectory again")
    if scans.stamps is None:
        raise InputError(f"{path}: poses with stamps, but the scans of {scans.source.name} have none; write it in KITTI's format")
    order = np.argsort(stamps, kind="stable")
    wanted, known = np.array(scans.stamps, np.int64), stamps[order]
    after = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    before = (after - 1).clip(min=0)
    nearest = np.where(np.abs(wanted - known[before]) <= np.abs(known[after] - wanted), before, after)
    rows = np.flatnonzero(np.abs(known[nearest] - wanted) <= _TOLERANCE)
    if len(rows) < max(2, _FEWEST * len(scans)):
        raise InputError(
            f"{path}: {len(rows)} of {len(scans)} scans have a pose within 10 ms; write the stamps of the scans, in seconds"
        )
    return rows, poses[order[nearest[rows]]]
