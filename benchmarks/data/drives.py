"""Raw scans with true poses to evaluate odometry: drives through held-out worlds, and real sequences."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.held_out import PLACES
from benchmarks.data.real_sequences import is_off, uncorrected_sequence
from benchmarks.data.rings import has_rings, nearest_ring, prepared, ring_elevations, thin_rings
from benchmarks.options import DRIVES, MODEL, REAL, option
from poli.errors import InputError
from poli.io.datasets import Dataset, FolderDataset, correct_elevation, open_poli_folder, write_folder
from poli.io.datasets.files import MANIFEST
from poli.scan import Scan
from poli.threads import thread_count, use_one_thread
from poli.voxels import voxel_downsample
from poli.worlds import Ride, Trajectory, World, find_spinning
from poli.worlds.drive import Drive
from poli.worlds.places import make_place
from poli.worlds.scan_pairs import HELD_OUT_SEEDS

_RECORDED = ("ring",)  # fields of recorded scans
_SIMULATED_VOXELS = (0.5, 1.0)  # meters
_INDOORS = 5.0  # meters: median range
# Voxel sizes used in the paper for these sensors; other sensors and real sequences define their own.
VOXELS = {"vlp16": (0.2, 0.5, 1.0), "os2_128": (1.0, 1.5, 2.0)}  # meters


@dataclass(frozen=True)
class DriveOptions:
    """Options of all experiments on drives."""

    model: str = option("lidar", MODEL)
    real: Path | None = option(None, REAL)
    drives: Path = option(Path("runs/odometry_drives"), DRIVES)
    scans: int = option(121, "scans per simulated drive", least=2)
    places: tuple[str, ...] = option(PLACES, "held-out places, separated by commas")


@dataclass(frozen=True, eq=False)
class RecordedDrive:
    """Consecutive scans of one sensor, and their poses. They are deskewed, or have point times."""

    name: str  # "town vlp16", "kitti_raw_0013, 16 beams"
    place: str
    sensor: str
    scans: list[np.ndarray]  # each (N, 3), float32, in the sensor frame
    poses: np.ndarray  # (M, 4, 4) T_world_sensor
    rate: float  # scans per second
    voxels: tuple[float, ...]  # meters: voxel sizes to evaluate
    # What systems receive in addition to the points, where it is known:
    times: list[np.ndarray] | None = None  # each (N,): seconds from the stamp
    rings: list[np.ndarray] | None = None  # each (N,): ring numbers
    stamps: list[int] | None = None  # nanoseconds, the instants of the poses

    @property
    def recorded(self) -> list[Scan]:
        """The scans as a system receives them, with everything known about their points."""
        known = {name: values for name, values in (("time", self.times), ("ring", self.rings)) if values is not None}
        return [
            Scan(points, {name: values[row] for name, values in known.items()}, None if self.stamps is None else self.stamps[row])
            for row, points in enumerate(self.scans)
        ]

    @property
    def indoors(self) -> bool:
        """Whether the surroundings are so near that systems need their settings for indoors."""
        return float(np.median(np.linalg.norm(self.scans[0], axis=1))) < _INDOORS

    def first(self, count: int) -> RecordedDrive:
        """The first `count` scans."""
        cut = {name: getattr(self, name)[:count] for name in ("times", "rings", "stamps") if getattr(self, name) is not None}
        return replace(self, scans=self.scans[:count], poses=self.poses[:count], **cut)

    def __len__(self) -> int:
        return len(self.scans)


@dataclass(frozen=True)
class RealSequence:
    """A sequence in KITTI layout, and how to evaluate it."""

    sequence: str
    sensor: str
    rate: float  # hertz, of the sensor: the times of extracted sequences are not always those of the sensor
    voxels: tuple[float, ...]  # meters
    beams: int | None = None  # thin the sensor to this many; None: keep all
    nearest: float = 0.0  # meters; nearer returns are the car itself
    raw_kitti: bool = False  # skewed, with wrong elevations: `rings.prepared` adds times and corrects them

    @property
    def name(self) -> str:
        return f"{self.sequence}{f', {self.beams} beams' if self.beams else ''}"


# The real sequences on which systems are compared, all prepared alike: KITTI's with point times and corrected elevations.
_KITTI = ("kitti_raw_0005", "kitti_raw_0009", "kitti_raw_0013")
SYSTEM_SEQUENCES = (
    *(RealSequence(name, "hdl64e", 10.0, (0.5,), beams, raw_kitti=True) for name in _KITTI for beams in (16, 32, None)),
    RealSequence("nuscenes_0001", "hdl32e", 20.0, (0.5,), nearest=2.5),
    RealSequence("nuscenes_0006", "hdl32e", 20.0, (0.5,), nearest=2.5),
    RealSequence("mulran_kaist03", "os1_64", 10.0, (0.5,)),
    RealSequence("robosense_e1r", "e1r", 10.0, (0.2,)),
)


def real_sequences(root: Path, chosen: Sequence[RealSequence]) -> Iterator[RecordedDrive]:
    """Yield those of `chosen` found under `root`, in KITTI odometry layout; the scans of a drive are read when it is reached."""
    opened = [(real, _open_real(root, real)) for real in chosen]
    return (_read_real(real, sequence, is_off(root, real.sequence)) for real, sequence in opened)


def simulated_sequences(
    sensors: Sequence[str] = ("vlp16", "os2_128"),  # names, or beam files for `find_spinning`
    places: Sequence[str] = PLACES,
    count: int = 121,
    *,
    keep: Path,
) -> Iterator[RecordedDrive]:
    """Record `count` scans at 8 m/s in the middle of each place's route; fewer, with a warning, if the route is too short.

    Recordings are written to the folder `keep`, with one process per core, and read from there the next time; those of another
    length, sensor or ride are replaced. Changes of the simulator are not detected: delete the recordings after one.
    """
    if count < 2:
        raise InputError(f"count is {count}; odometry needs at least two scans")
    strange = [place for place in places if place not in PLACES]
    if strange:
        raise InputError(f"places: {strange[0]!r} is not held out; choose from {', '.join(PLACES)}")
    keep.mkdir(parents=True, exist_ok=True)
    recordings = {place: [_Recording(keep, place, sensor, count) for sensor in sensors] for place in places}
    missing = [those for recorded in recordings.values() if (those := [r for r in recorded if r.found() is None])]
    if len(missing) == 1:
        _record(missing[0])
    elif missing:
        with ProcessPoolExecutor(min(thread_count(), len(missing)), get_context("spawn"), use_one_thread) as pool:
            list(pool.map(_record, missing))
    return (recording.read() for recorded in recordings.values() for recording in recorded)


@dataclass(frozen=True)
class _Recording:
    keep: Path
    place: str
    sensor: str
    count: int  # requested scans; a short route has fewer

    @property
    def name(self) -> str:
        return f"{self.place} {Path(self.sensor).stem}"

    @property
    def folder(self) -> Path:
        return self.keep / self.name.replace(" ", "_")

    @property
    def number(self) -> int:
        return PLACES.index(self.place)  # independent of the requested places, so that recordings are reusable

    @property
    def about(self) -> dict[str, Any]:
        """Everything the recording depends on, in JSON types."""
        seed, sensor = HELD_OUT_SEEDS + self.number, asdict(find_spinning(self.sensor))
        ride = {
            "ride": asdict(Ride()),
            "starts": "so that the drive is in the middle of the route",
            "deskewed": True,
            "fields": ["ring"],
        }
        about = {"place": self.place, "seed": seed, "sensor": sensor, "count": self.count, "fields": _RECORDED, **ride}
        return json.loads(json.dumps(about))

    def found(self) -> FolderDataset | None:
        if not (self.folder / MANIFEST).is_file():
            return None
        recorded = open_poli_folder(self.folder)
        return recorded if recorded.about == self.about else None

    def make(self, world: World) -> None:
        sensor, ride = find_spinning(self.sensor), Ride()
        duration = Trajectory(world.place.route, ride, self.number).duration
        count = min(self.count, int(duration * sensor.rate))
        start = 0.5 * ride.speed * (duration - count / sensor.rate)
        # A millimeter less, or rounding could drop the last scan.
        drive = Drive(world, sensor, replace(ride, start=max(0.0, start - 1e-3)), count, seed=self.number)
        if (self.folder / MANIFEST).is_file():  # an outdated recording; `write_folder` rejects any other folder
            shutil.rmtree(self.folder)
        write_folder(self.folder, self.name, (scan.keep(*_RECORDED) for scan in drive), drive.poses, about=self.about)

    def read(self) -> RecordedDrive:
        recorded = self.found()
        if recorded is None or recorded.poses is None:
            raise InputError(f"{self.folder}: the recording was changed while in use; run the benchmark again")
        if len(recorded) < self.count:
            warnings.warn(f"{self.name}: the route is long enough for only {len(recorded)} of {self.count} scans", stacklevel=2)
        read = list(recorded)
        scans, rings = [scan.points for scan in read], [scan.fields["ring"] for scan in read]
        sensor, rate = Path(self.sensor).stem, find_spinning(self.sensor).rate
        return RecordedDrive(self.name, self.place, sensor, scans, recorded.poses, rate, _SIMULATED_VOXELS, rings=rings)


def _record(recordings: Sequence[_Recording]) -> None:
    """Record all drives of one place, building its world once."""
    world = World(make_place(recordings[0].place, HELD_OUT_SEEDS + recordings[0].number))
    for recording in recordings:
        recording.make(world)


def _open_real(root: Path, real: RealSequence) -> Dataset:
    sequence = uncorrected_sequence(root, real.sequence, real.nearest)
    if sequence.poses is None or len(sequence) < 2:
        raise InputError(f"{root}: {real.sequence} has {len(sequence)} scans; it needs two and a file poses/{real.sequence}.txt")
    return sequence


def _read_real(real: RealSequence, sequence: Dataset, off: bool) -> RecordedDrive:
    assert sequence.poses is not None
    recorded = list(sequence)
    known: dict[str, Any] = {}
    if all(scan.stamp is not None for scan in recorded):
        known["stamps"] = [scan.stamp for scan in recorded]
    if real.raw_kitti:
        recorded = [prepared(scan, real.beams) for scan in recorded]
        known["times"], known["rings"] = ([scan.fields[name] for scan in recorded] for name in ("time", "ring"))
    scans = [scan.points for scan in recorded]
    if real.beams is not None and not real.raw_kitti:
        scans = [thin_rings(points, real.sensor, real.beams) for points in scans]
    if off and not real.raw_kitti:
        scans = [correct_elevation(points) for points in scans]
    if "rings" not in known and has_rings(real.sensor):
        elevations = ring_elevations(real.sensor, real.beams)
        known["rings"] = [nearest_ring(points, elevations).astype(np.uint8) for points in scans]
    return RecordedDrive(real.name, real.sequence, real.sensor, scans, sequence.poses, real.rate, real.voxels, **known)


@dataclass(frozen=True)
class SimulatedDrive:
    sensor: str
    place: str
    count: int
    keep: Path

    def open(self) -> RecordedDrive:
        drive = next(simulated_sequences((self.sensor,), (self.place,), self.count, keep=self.keep))
        return replace(drive, voxels=VOXELS.get(drive.sensor, drive.voxels))


@dataclass(frozen=True)
class RealDrive:
    root: Path
    sequence: RealSequence

    def open(self) -> RecordedDrive:
        return next(real_sequences(self.root, (self.sequence,)))


DriveSource = SimulatedDrive | RealDrive


class ThinnedScans(dict[float, list[np.ndarray]]):
    """A drive's scans by voxel size, computed on demand. Downsampling twice with the same voxels changes nothing, so rivals give
    the same results on these as on the raw scans, only faster."""

    def __init__(self, drive: RecordedDrive) -> None:
        super().__init__()
        self._scans = drive.scans

    def __missing__(self, voxel: float) -> list[np.ndarray]:
        self[voxel] = [voxel_downsample(points.astype(np.float64), voxel).points for points in self._scans]
        return self[voxel]
