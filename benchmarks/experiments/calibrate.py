"""Find the errors of beams in logs: known ones in simulated drives, and those of real sensors.

Example: python -m benchmarks calibrate --real sequences
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.options import REAL, option
from benchmarks.report import Column, Report, Table
from poli.beams.calibrate import Calibrated, calibrate
from poli.beams.corrections import Beam, BeamCalibration, corrected
from poli.errors import PoliError
from poli.io.datasets import dataset
from poli.lidar_odometry import Odometer, OdometryConfig
from poli.scan import Scan
from poli.se3 import inverse
from poli.worlds import Ride, World, find_spinning
from poli.worlds.drive import Drive
from poli.worlds.places import make_place
from poli.worlds.scan_pairs import HELD_OUT_SEEDS

MODELS = ("lidar",)

_PLACES = {"vlp16": "town", "hdl32e": "campus", "hdl64e": "campus", "os1_64": "apartments", "os2_128": "town"}
_COMMON, _OWN, _RANGE = 0.2, 0.1, 0.02  # degrees, degrees, meters: error of all beams, and one sigma of each beam's own
_KITTI, _NUSCENES = ("kitti_raw_0005", "kitti_raw_0009"), "nuscenes_0006"
_TILT = 0.205  # degrees: the known error of KITTI's HDL-64E
_NEAREST = 2.5  # meters; nearer returns of nuScenes are the car itself


@dataclass(frozen=True)
class Options:
    sensors: tuple[str, ...] = option(tuple(_PLACES), "simulated sensors, separated by commas")
    scans: int = option(120, "scans per simulated drive", least=60)
    simulated: bool = option(True, "simulated drives")
    seed: int = option(1, "seed of the simulated drives and of the errors", least=0)
    real: Path | None = option(None, REAL)


def run(options: Options) -> Iterator[Report]:
    if options.simulated:
        yield _simulations(options)
    if options.real is not None:
        yield _real(options.real)


def _simulations(options: Options) -> Report:
    records = [_simulated(sensor, options) for sensor in options.sensors]
    notes = [
        f"{options.scans} scans at 8 m/s, not deskewed, with point times; all beams are off by {_COMMON:g} degrees, and each by "
        f"its own error: sigma {_OWN:g} degrees and {100 * _RANGE:g} cm",
        "RMS over beams of the error of elevation (degrees) and range (cm), before and after; low: beams below -1.5 degrees, which "
        "see the ground; beams that look up see only walls, which say little about elevation, and get the common error",
        "sigma: RMS of the predicted standard deviation; the last quarter of the scans decides whether the result is kept",
    ]
    return Report("calibrate", "Errors of beams found in simulated logs", records, _TABLE, notes)


_TABLE = Table(
    [Column("sensor", "{sensor}")],
    [
        Column("beams", "{beams}"),
        Column("elevation before", "{elevation_before:.3f}"),
        Column("after", "{elevation_after:.3f}"),
        Column("mean error", "{elevation_mean:+.3f}"),
        Column("low before", "{low_before:.3f}"),
        Column("low after", "{low_after:.3f}"),
        Column("sigma", "{elevation_sigma:.3f}"),
        Column("range before", "{range_before:cm}"),
        Column("range after", "{range_after:cm}"),
        Column("range sigma", "{range_sigma:cm}"),
        Column("kept", lambda r: "yes" if r["kept"] else "no"),
        Column("seconds", "{seconds:.0f}"),
    ],
)


def _simulated(name: str, options: Options) -> dict[str, Any]:
    sensor = find_spinning(name)
    world = World(make_place(_PLACES.get(name, "town"), HELD_OUT_SEEDS + options.seed))
    drive = Drive(world, sensor, Ride(start=20.0), options.scans, options.seed, deskewed=False)
    rng = np.random.default_rng([options.seed, 5])
    count = len(sensor.elevations)
    errors = np.stack([_COMMON + _OWN * rng.standard_normal(count), _RANGE * rng.standard_normal(count)], axis=1)
    scans = [_distorted(scan, errors) for scan in track(drive, f"simulating {name}", total=options.scans)]
    begin = time.perf_counter()
    found = calibrate(scans)
    seconds = time.perf_counter() - begin
    rows = np.array([beam.ring for beam in found.calibration.beams])
    truth, wrong = errors[rows], found.calibration.corrections - errors[rows]  # (B, 2)
    low = np.array([beam.elevation < -1.5 for beam in found.calibration.beams])
    sigmas = np.array([[beam.sigma_elevation, beam.sigma_range] for beam in found.calibration.beams])
    return {
        "sensor": name, "beams": count, "kept": found.kept, "seconds": seconds,
        "elevation_before": _rms(truth[:, 0]), "elevation_after": _rms(wrong[:, 0]), "elevation_mean": float(wrong[:, 0].mean()),
        "low_before": _rms(truth[low, 0]), "low_after": _rms(wrong[low, 0]), "elevation_sigma": _rms(sigmas[:, 0]),
        "range_before": _rms(truth[:, 1]), "range_after": _rms(wrong[:, 1]), "range_sigma": _rms(sigmas[:, 1]),
    }  # fmt: skip


def _distorted(scan: Scan, errors: np.ndarray) -> Scan:  # (B, 2)
    points = corrected(scan.points.astype(np.float64), -errors[scan.fields["ring"].astype(np.int64)])
    return replace(scan, points=points.astype(np.float32)).keep("ring", "time")


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


# --- real sequences


def _real(root: Path) -> Report:
    calibrations, records = {}, []
    for name in (*_KITTI, _NUSCENES):
        scans = _read(root, name)
        begin = time.perf_counter()
        found = calibrate(scans, min_range=0.0 if name in _KITTI else _NEAREST)
        calibrations[name] = found
        records.append(
            {"what": f"calibrate {name}", **_found(found), "seconds": time.perf_counter() - begin, "height": float("nan")}
        )
    tested = _KITTI[-1]
    truth = dataset("kitti", root, sequence=tested).poses
    assert truth is not None
    fixed = BeamCalibration((Beam(-45.0, _TILT), Beam(45.0, _TILT)), "between")
    ways = {"no correction": None, f"{_TILT:g} degrees": fixed}
    ways |= {f"calibrated on {name}": calibrations[name].calibration for name in _KITTI}
    scans = _read(root, tested)
    for way, calibration in ways.items():
        height = _height_error(scans, calibration, inverse(truth[0]) @ truth)
        records.append({"what": f"odometry of {tested}, {way}", **dict.fromkeys(_FOUND), "seconds": float("nan"), "height": height})
    notes = [
        "calibrate: mean and extremes over beams of what to add to the elevation (degrees), mean of what to add to the range "
        "(cm), and the mean robust cost of held-out planes before and after",
        "height: largest error of the height of odometry against the GPS/INS poses, aligned at the first scan, in meters; with "
        "point times from the azimuth and deskewing",
        f"{_TILT:g} degrees is the correction that KISS-ICP's loaders apply to KITTI",
        "the least range, the length of stretches and the prior where beams overlap were chosen knowing the results on these "
        "KITTI logs",
    ]
    return Report("calibrate_real", "Errors of real beams, found in logs", records, _REAL_TABLE, notes)


_FOUND = ("rings", "mean", "least", "most", "range", "before", "after", "kept")
_REAL_TABLE = Table(
    [Column("run", "{what}")],
    [
        Column("beams by", lambda r: r["rings"] or ""),
        Column("elevation", lambda r: "" if r["mean"] is None else f"{r['mean']:+.3f} ({r['least']:+.3f} to {r['most']:+.3f})"),
        Column("range", lambda r: "" if r["range"] is None else f"{100 * r['range']:+.1f}"),
        Column("held out", lambda r: "" if r["before"] is None else f"{r['before']:.4f}, {r['after']:.4f}"),
        Column("kept", lambda r: "" if r["kept"] is None else "yes" if r["kept"] else "no"),
        Column("seconds", "{seconds:.0f}"),
        Column("height", "{height:.2f}"),
    ],
)


def _found(found: Calibrated) -> dict[str, Any]:
    up = found.calibration.corrections[:, 0]
    numbers = (float(up.mean()), float(up.min()), float(up.max()), float(found.calibration.corrections[:, 1].mean()))
    values = (found.calibration.rings, *numbers, found.held_out.before, found.held_out.after, found.kept)
    return dict(zip(_FOUND, values, strict=True))


class _Read(Sequence[Scan]):
    """The scans of a sequence, read on demand."""

    def __init__(self, root: Path, name: str) -> None:
        # As recorded: without the loader's correction, whose value is to be found, and with times for KITTI's drives.
        self._opened, self.name = dataset("kitti", root, sequence=name, correct_elevation=False), name

    def __len__(self) -> int:
        return len(self._opened)

    def __getitem__(self, index):
        return self._opened[index]


def _read(root: Path, name: str) -> _Read:
    return _Read(root, name)


def _height_error(scans: _Read, calibration: BeamCalibration | None, truth: np.ndarray) -> float:  # (M, 4, 4)
    odometer = Odometer(OdometryConfig())
    try:
        for scan in track((scans[i] for i in range(len(scans))), "odometry", total=len(scans)):
            odometer.add(scan if calibration is None else calibration.apply(scan))
    except PoliError:
        return float("nan")
    return float(np.abs(odometer.poses[:, 2, 3] - truth[:, 2, 3]).max())
