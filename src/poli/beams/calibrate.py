"""`poli.calibrate`: find the constant errors of a sensor's beams in a log, without ground truth or targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from poli.beams.adjustment import Linear, Stretch, adjust, linearize, prior, trusted_cells
from poli.beams.corrections import PERIOD, BeamCalibration
from poli.beams.returns import choose_returns, find_beams
from poli.configs import LEAST_SCANS, CalibrateConfig, OdometryConfig
from poli.errors import InputError
from poli.io.datasets import Dataset
from poli.lidar_odometry import Odometer, Status
from poli.lidar_odometry.deskewing import PointTimes
from poli.lidar_odometry.trajectory_errors import path_lengths
from poli.options import configured, lists_options
from poli.scan import Scan
from poli.se3 import inverse

_LOOKED_AT = 8  # scans in which beams are found
_LENGTH = 80  # scans of a stretch: long enough that ground far ahead in one scan is near in another
_LEAST = 6  # scans of a stretch that are worth using
_HELD_OUT = 0.25  # of the scans
# Widths of the robust kernel, in sigmas: at first, planes are as thick as the errors make them.
_FIRST_WIDTHS, _WIDTHS = (8.0, 4.0, 2.0, 2.0), (4.0, 2.0, 2.0, 2.0)
_BETTER = 2.0  # standard errors
_LEAST_PLANES, _LEAST_RETURNS = 20, 8
_IMPLAUSIBLE = np.array([3.0, 0.5])  # degrees, meters


@dataclass(frozen=True)
class HeldOut:
    """Whether a calibration explains scans that it has not seen: their planes must become thinner. Mean robust cost of held-out
    returns on their planes, poses and planes fitted in both cases; lower is better."""

    before: float
    after: float
    sigma: float  # of the difference, from its scatter between planes
    planes: int


@dataclass(frozen=True)
class Calibrated:
    """The result of `calibrate`. Use `calibration` only if it was `kept`: if held-out scans agree better with it than without."""

    calibration: BeamCalibration
    held_out: HeldOut
    scans: int  # used, including those held out
    meters: float  # driven in them

    @property
    def kept(self) -> bool:
        """Whether held-out scans agree better with the calibration than without, by more than chance."""
        return self.held_out.before - self.held_out.after > _BETTER * self.held_out.sigma


@lists_options(CalibrateConfig)
def calibrate(
    scans: Dataset | Sequence[Scan],
    config: CalibrateConfig | None = None,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **options: Any,
) -> Calibrated:
    """Find what to add to the elevation and the range of each beam of a spinning sensor, from a log alone.

    Odometry gives poses and a map of ellipsoids. Where these are flat, thin and of one direction, the returns of all beams and
    scans must lie on one plane. A joint least squares over beams, poses and planes makes them. The last quarter of the scans is
    held out and decides whether the result is `kept`.

    Args:
        scans: scans in order, such as a `poli.dataset`, as the sensor delivered them.
        config: the options as one object. Keywords override its fields.
        progress: called with the number of scans done and the total.
    """
    settings = configured(CalibrateConfig, config, options)
    if len(scans) < LEAST_SCANS:
        raise InputError(f"the log has {len(scans)} scans; calibrating beams needs at least {LEAST_SCANS}")
    looked_at = [_prepared(scans[int(i)], settings) for i in np.linspace(0, len(scans) - 1, _LOOKED_AT).round()]
    beams = find_beams(looked_at)
    deskewed = all(scan.stamp is not None and "time" in scan.fields for scan in looked_at)
    odometry = OdometryConfig(
        voxel=settings.voxel, model=settings.model, deskew="on" if deskewed else "off", max_range=settings.max_range,
        on_loss="restart",
    )  # fmt: skip
    learned, kept_back = choose_stretches(len(scans), settings.max_scans)
    total = settings.rounds * sum(map(len, learned)) + sum(map(len, kept_back))
    done = count(1)

    def read(number: int) -> Scan:
        progress(next(done), total)
        return _prepared(scans[number], settings)

    def tracked(chosen: Sequence[range], calibration: BeamCalibration) -> list[Stretch]:
        found = [_track((read(number) for number in numbers), calibration, odometry) for numbers in chosen]
        usable = [stretch for stretch in found if stretch is not None]
        if not usable:
            raise InputError(
                "odometry tracks no stretch of the log; drop returns of the vehicle (min_range), or use a log in which it works"
            )
        return usable

    corrections, expected, calibration = np.zeros((len(beams.beams), 2)), prior(len(beams.beams), beams.rings), beams
    for number in range(settings.rounds):
        used = tracked(learned, calibration)
        corrections, covariance, _ = adjust(used, corrections, expected, _WIDTHS if number else _FIRST_WIDTHS)
        worst = np.abs(corrections).max(axis=0)
        if not (worst < _IMPLAUSIBLE).all():
            raise InputError(
                f"the surfaces of the log would need corrections of up to {worst[0]:.1f} degrees and {worst[1]:.2f} m, which no "
                f"beam of {len(corrections)} has; check that the scans are of one spinning sensor, in its own frame with z up, and "
                "that point times are right or deskewing is off"
            )
        calibration = beams.corrected(corrections, np.sqrt(np.diag(covariance)).reshape(2, -1).T)
    judged = tracked(kept_back, beams)
    verdict = _compare(judged, corrections)
    count_used = sum(len(stretch.poses) for stretch in (*used, *judged))
    meters = sum(float(path_lengths(stretch.poses)[-1]) for stretch in (*used, *judged))
    about = (
        f"Found by poli calibrate in {getattr(scans, 'name', 'a log')}: {count_used} scans, {meters:.0f} m.\n"
        f"Thickness of {verdict.planes} held-out planes (mean robust cost): {verdict.before:.4f} before, {verdict.after:.4f} "
        f"after, difference {verdict.before - verdict.after:.4f} +- {verdict.sigma:.4f}."
    )
    return Calibrated(replace(calibration, about=about), verdict, count_used, meters)


def _prepared(scan: Scan, config: CalibrateConfig) -> Scan:
    scan = scan.clean()
    squared = np.einsum("ni,ni->n", scan.points, scan.points, dtype=np.float64)
    scan = scan.select((squared >= config.min_range**2) & (squared <= config.max_range**2))
    return PointTimes(config.deskew)(scan, PERIOD)


def choose_stretches(count: int, most: int) -> tuple[list[range], list[range]]:
    """Split a log of `count` scans into stretches to learn from and stretches to hold out, which are the last quarter.

    If the log has more than `most` scans, only so many are used, in stretches that are spread evenly over it.
    """
    used = min(count, most)
    learned = used - round(_HELD_OUT * used)
    pieces = max(1, round(learned / _LENGTH)), max(1, round((used - learned) / _LENGTH))
    edges = np.concatenate([np.linspace(0, learned, pieces[0] + 1), np.linspace(learned, used, pieces[1] + 1)[1:]])
    shift = np.linspace(0, count - used, sum(pieces)).round().astype(int)
    ends = edges.round().astype(int)
    found = [range(int(a + s), int(b + s)) for a, b, s in zip(ends[:-1], ends[1:], shift, strict=True)]
    return found[: pieces[0]], found[pieces[0] :]


def _track(log: Iterable[Scan], calibration: BeamCalibration, config: OdometryConfig) -> Stretch | None:
    """Run odometry on corrected scans. The stretch ends where tracking does; None if it has fewer than `_LEAST` scans."""
    odometer = Odometer(config)
    scans: list[Scan] = []
    for scan in log:
        step = odometer.add(calibration.apply(scan) if calibration.corrections.any() else scan)
        if (step.alignment is None and step.index > 0) or step.status is Status.RESTARTED:
            break
        scans.append(scan)
    if len(scans) < _LEAST or odometer.map is None:
        return None
    stamps = [scan.stamp for scan in scans]
    seconds = np.arange(len(scans)) * PERIOD if None in stamps else (np.array(stamps) - stamps[0]) * 1e-9
    poses = odometer.poses[: len(scans)]
    returns = choose_returns(scans, calibration, seconds, config.deskew == "on")
    return Stretch(returns, inverse(poses[0]) @ poses, *trusted_cells(odometer.map.field))


def _compare(stretches: Sequence[Stretch], corrections: np.ndarray) -> HeldOut:  # (B, 2)
    """Compare held-out stretches with and without corrections, on the planes found without them."""
    without = np.zeros_like(corrections)
    costs = []
    for stretch in stretches:
        raw = adjust([stretch], without, None, _WIDTHS)[2][0]
        planes = linearize(raw, without, _WIDTHS[-1]).planes
        fixed = adjust([raw], corrections, None, _WIDTHS)[2][0]
        linear = [linearize(state, chosen, _WIDTHS[-1], planes) for state, chosen in ((raw, without), (fixed, corrections))]
        costs.append(np.stack([_by_plane(found) for found in linear], axis=1))
    both = np.concatenate(costs)  # (V, 2)
    both = both[np.isfinite(both).all(axis=1)]
    if len(both) < _LEAST_PLANES:
        raise InputError(f"the held-out scans show only {len(both)} planes; {_LEAST_PLANES} are needed: use a longer log")
    before, after = both.mean(axis=0)
    return HeldOut(float(before), float(after), float((both[:, 0] - both[:, 1]).std() / np.sqrt(len(both))), len(both))


def _by_plane(linear: Linear) -> np.ndarray:  # (V,)
    """Mean cost of the returns of each plane; NaN where fewer than `_LEAST_RETURNS` are usable."""
    members, planes = linear.planes.members, len(linear.planes.normals)
    counts = np.bincount(members, minlength=planes)
    sums = np.bincount(members, np.log1p((linear.residuals / (_WIDTHS[-1] * linear.sigmas)) ** 2), minlength=planes)
    return np.where(counts >= _LEAST_RETURNS, sums / np.maximum(counts, 1), np.nan)
