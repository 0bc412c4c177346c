"""Table IV: GLIM and FAST-LIO2 on raw and densified bags of DCC, which this writes; it reads the trajectories they write.

The systems need ROS and run outside. This writes RUNS/bags/SEQUENCE/raw.bag and dense.bag (ROS 1, with /velodyne_points and
/imu/data), and reads DIR/NAME/SEQUENCE.txt of --trajectories, where NAME is GLIM, GLIM-POLI, FAST-LIO2 or FAST-LIO2-POLI.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from benchmarks.experiments.paper import model_for
from benchmarks.experiments.paper.contest import FRAMES, PAIRS, Found, each, written_by
from benchmarks.experiments.paper.numbers import TABLE4
from benchmarks.experiments.paper.sequences import Source, sources
from benchmarks.report import Column, Record, Report, Table, show
from poli.densification import DensifyConfig
from poli.densification.bags import densify_bag, look_into_bag
from poli.densification.resume import engine
from poli.errors import FormatError, MissingExtra
from poli.io.atomic import atomic_path
from poli.io.datasets import open_helipr
from poli.lidar_odometry.trajectory_errors import absolute_errors
from poli.scan import Scan

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options

CLOUDS, IMU = "/velodyne_points", "/imu/data"
_CLOUD_TYPE, _IMU_TYPE = "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/Imu"
_POINT = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("ring", "<u2"), ("time", "<f4")])
_NUMBERS = {"f4": 7, "u2": 4}  # of PointField
_IMU_FILE = Path("Inertial_data") / "xsens_imu.csv"
_COLUMNS = (8, 17)  # stamp, quaternion (x y z w), angles; and rates, accelerations, magnetic field

METHODS = {  # names of their folders, and what they are in the paper
    "FAST-LIO2": ("FAST-LIO2", "raw"),
    "FAST-LIO2-POLI": ("FAST-LIO2", "POLI"),
    "GLIM": ("GLIM", "raw"),
    "GLIM-POLI": ("GLIM", "POLI"),
}


def run(options: Options) -> Iterator[Report]:
    chosen = sources(options, ("DCC",), datasets=("helipr",))
    written = each(options, write_bags, chosen, "bags")
    records: list[dict[str, Any]] = []
    reasons = []
    for source in chosen:
        for method in METHODS:
            found = written_by(options, source, method)
            records += judged(source, method, found, options.frames or (FRAMES,))
            reasons += [found] if isinstance(found, str) else []
    notes = [*_NOTES, *(note for notes in written for note in notes), *dict.fromkeys(reasons)]
    yield Report("paper_table4", "Table IV of the paper: systems with an IMU on raw and densified scans", records, _TABLE, notes)


def judged(source: Source, method: str, found: Found | str, frames: tuple[int, ...]) -> list[dict[str, Any]]:
    """Our numbers and the paper's, one record for each measure."""
    printed = TABLE4[METHODS[method]] if source.column == "DCC" else {}
    about = {"sequence": source.name, "method": method, "system": METHODS[method][0]}
    measured: list[tuple[str, float, str]] = []
    for n in frames:
        rpe = {} if isinstance(found, str) else {pairs: found.errors(n, pairs) for pairs in PAIRS}
        for pairs in PAIRS:
            count = f", {rpe[pairs].count}" if rpe else ""
            title = f"RPE over {n} scans, {pairs} pairs{count}"
            known = ("rpe_m", "rpe_deg") if n == FRAMES else ("", "")
            measured.append((f"{title}, m", rpe[pairs].meters if rpe else math.nan, known[0]))
            measured.append((f"{title}, degrees", rpe[pairs].degrees if rpe else math.nan, known[1]))
    alignments: tuple[Literal["umeyama", "origin"], ...] = ("umeyama", "origin")
    for align in alignments:
        ape = _ape(found, align)
        title = "APE, aligned" if align == "umeyama" else "APE from the first pose"
        known = ("ape_m", "ape_deg") if align == "umeyama" else ("", "")
        measured += [(f"{title}, m", ape[0], known[0]), (f"{title}, degrees", ape[1], known[1])]
    return [{**about, "measure": m, "ours": value, "paper": printed.get(name, math.nan)} for m, value, name in measured]


def _ape(found: Found | str, align: Literal["umeyama", "origin"]) -> tuple[float, float]:
    return (math.nan, math.nan) if isinstance(found, str) else absolute_errors(found.poses, found.truth, align).rmse


# --- bags


def write_bags(options: Options, source: Source) -> list[str]:
    """Write the raw and the densified bag of a sequence, unless they are there. Returns notes about them."""
    folder = options.runs / "bags" / source.name
    folder.mkdir(parents=True, exist_ok=True)
    raw, dense = folder / "raw.bag", folder / "dense.bag"
    imu = source.root / source.name / _IMU_FILE
    if not raw.is_file():
        write_raw(raw, source, imu)
    if not dense.is_file():
        config = DensifyConfig(model=model_for(options, "table4"), seed=options.seed)
        with engine() as here:
            for _ in densify_bag(look_into_bag(raw, dense, CLOUDS), dense, config, here):
                pass
    if imu.is_file():
        return []
    return [f"{source.name}: {_IMU_FILE} is missing, so its bags have no {IMU}, which FAST-LIO2 needs."]


def write_raw(path: Path, source: Source, imu: Path) -> None:
    """Write the scans and, if there is a file, the measurements of the IMU to a bag, in the order of their times."""
    try:
        from rosbags.rosbag1 import Writer
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise MissingExtra("writing bags", "ros") from None
    store = get_typestore(Stores.ROS1_NOETIC)
    scans = open_helipr(source.root, source.name, source.sensor, poses=False)
    rows = range(min(source.scans or len(scans), len(scans)))
    last = scans[rows[-1]].stamp or 0
    clouds = (_Timed(_end(scan), CLOUDS, scan) for scan in (scans[row] for row in rows))
    inertial = (one for one in read_imu(imu) if one.nanoseconds <= last) if imu.is_file() else iter(())
    with atomic_path(path) as temporary:
        temporary.unlink()  # the writer wants to create it
        with Writer(temporary) as writer:
            topics = {
                CLOUDS: writer.add_connection(CLOUDS, _CLOUD_TYPE, typestore=store),
                IMU: writer.add_connection(IMU, _IMU_TYPE, typestore=store),
            }
            for number, one in enumerate(heapq.merge(clouds, inertial, key=lambda one: one.nanoseconds)):
                message, kind = (_cloud, _CLOUD_TYPE) if one.topic == CLOUDS else (_imu, _IMU_TYPE)
                raw = store.serialize_ros1(message(store.types, number, one.what), kind)
                writer.write(topics[one.topic], one.nanoseconds, raw)


class _Timed(NamedTuple):
    nanoseconds: int  # when it is recorded
    topic: str
    what: Any


def _end(scan: Scan) -> int:
    """When a driver publishes a scan: after its last point."""
    last = float(scan.fields["time"].max(initial=0.0)) if "time" in scan.fields else 0.0
    return (scan.stamp or 0) + round(1e9 * max(0.0, last))


def read_imu(path: Path) -> Iterator[_Timed]:
    """Rows of HeLiPR's xsens_imu.csv, one by one: nanoseconds, and the numbers of a row."""
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            words = line.strip().split(",")
            try:
                stamp, values = int(words[0]), np.array(words[1:], float)
            except ValueError:
                raise FormatError(f"{path}: line {number} is not numbers separated by commas; download it again") from None
            if len(words) not in _COLUMNS:
                raise FormatError(f"{path}: line {number} has {len(words)} columns; expected 17 (or 8, without rates)")
            if len(words) == _COLUMNS[1]:  # a system cannot use a row without rates and accelerations
                yield _Timed(stamp, IMU, (stamp, values))


def _header(types: Any, number: int, nanoseconds: int, frame: str) -> Any:
    seconds, rest = divmod(nanoseconds, 10**9)
    return types["std_msgs/msg/Header"](number, types["builtin_interfaces/msg/Time"](seconds, rest), frame)


def _cloud(types: Any, number: int, scan: Scan) -> Any:
    """A message in the layout of the Velodyne driver."""
    records = np.zeros(len(scan), _POINT)
    for column, axis in enumerate("xyz"):
        records[axis] = scan.points[:, column]
    for name in ("intensity", "ring", "time"):
        if name in scan.fields:
            records[name] = scan.fields[name]
    field, offsets = types["sensor_msgs/msg/PointField"], dict(_POINT.fields or {})
    fields = [field(name, where[1], _NUMBERS[where[0].str[1:]], 1) for name, where in offsets.items()]
    data, size = np.frombuffer(records.tobytes(), np.uint8), _POINT.itemsize
    header = _header(types, number, scan.stamp or 0, "velodyne")
    return types[_CLOUD_TYPE](header, 1, len(scan), fields, False, size, size * len(scan), data, True)


def _imu(types: Any, number: int, row: tuple[int, np.ndarray]) -> Any:
    stamp, values = row
    vector, unknown = types["geometry_msgs/msg/Vector3"], np.zeros(9)
    orientation = types["geometry_msgs/msg/Quaternion"](*values[:4])
    rates, accelerations = vector(*values[7:10]), vector(*values[10:13])
    return types[_IMU_TYPE](_header(types, number, stamp, "imu"), orientation, unknown, rates, unknown, accelerations, unknown)


def _cell(record: Record) -> str:
    paper = "" if math.isnan(record["paper"]) else show(" ({paper:.2f})", record)
    return show("{ours:.3f}", record) + paper


_TABLE = Table(
    [Column("sequence", "{sequence}"), Column("measure", "{measure}")], across="method", order=tuple(METHODS), cell=_cell
)

_NOTES = [
    "In parentheses: the paper's number; it does not say how trajectories were aligned or which pairs were taken. RPE and APE: "
    "root mean squares, as evo has them; APE after aligning all positions (its -a), or the first pose.",
    "Bags: RUNS/bags/SEQUENCE/raw.bag and dense.bag (`poli densify` with its defaults), ROS 1, with the clouds in the layout "
    "of the Velodyne driver (time in seconds from the stamp) on /velodyne_points and the IMU on /imu/data. For ROS 2: "
    "`rosbags-convert --src raw.bag --dst raw`.",
    "FAST-LIO2: in config/velodyne.yaml, lid_topic /velodyne_points, imu_topic /imu/data, scan_line 16, timestamp_unit 0 "
    "(seconds), extrinsic_T and extrinsic_R from HeLiPR's calibration; `roslaunch fast_lio mapping_velodyne.launch`, `rosbag "
    "play raw.bag`, and record /Odometry as TUM (`evo_traj bag ... /Odometry --save_as_tum`). It gives poses of the IMU: put "
    "T_imu_lidar into extrinsic.txt next to the trajectories.",
    "GLIM: in config_ros.json, points_topic /velodyne_points and imu_topic /imu/data; in config_sensors.json, T_lidar_imu; "
    "`rosrun glim_ros glim_rosbag raw.bag` (or `ros2 run`); the trajectory is traj_lidar.txt in its dump folder.",
]
