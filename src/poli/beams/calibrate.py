"""`poli.calibrate`: find the constant errors of a sensor's beams in a log, without ground truth or targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from poli.beams.adjustment import Linear, adjust, linearize, prior
from poli.beams.corrections import PERIOD, BeamCalibration
from poli.beams.planes import Stretch, choose_stretches, track
from poli.beams.returns import Beams, find_beams
from poli.errors import InputError
from poli.io.datasets import Dataset
from poli.lidar_odometry import OdometryConfig
from poli.lidar_odometry.config import Deskew, PointTimes
from poli.options import real_number, takes_config, whole_number
from poli.scan import Scan

# --- Options of calibration.


LEAST_SCANS = 30


@dataclass(frozen=True)
class CalibrateConfig:
    max_scans: int = 240  # most scans to use; of a longer log, stretches that are spread evenly over it
    voxel: float = 0.0  # meters, for odometry; 0: chosen at the first scan
    model: str = "lidar"  # of the ellipsoids: a shipped model, or the path of a .safetensors file
    deskew: Deskew = "auto"  # undo the motion within scans, as odometry does; times need stamps
    min_range: float = 0.0  # meters; nearer returns are dropped (the vehicle itself)
    max_range: float = 80.0  # meters; farther returns are dropped
    rounds: int = 2  # odometry and adjustment, each with the corrections of the round before

    def __post_init__(self) -> None:
        whole_number(self.max_scans, "max_scans", least=LEAST_SCANS)
        whole_number(self.rounds, "rounds", least=1)
        for name in ("voxel", "min_range"):
            real_number(getattr(self, name), name, "a number of meters of at least 0")
        real_number(self.max_range, "max_range", "a positive number of meters", above=True)
        if self.min_range >= self.max_range:
            raise InputError(f"min_range is {self.min_range} m and max_range {self.max_range} m; min_range must be smaller")
        if self.deskew not in get_args(Deskew):
            raise InputError(f"deskew is {self.deskew!r}; expected one of {', '.join(get_args(Deskew))}")


# --- Whether a calibration explains scans that it has not seen: their planes must become thinner.


_HELD_OUT_WIDTHS = (4.0, 2.0, 2.0, 2.0)
_WIDTH = 2.0  # of the robust cost, in sigmas
_BETTER = 2.0  # standard errors
_LEAST_PLANES, _LEAST_RETURNS = 20, 8


@dataclass(frozen=True)
class HeldOut:
    """Mean robust cost of held-out returns on their planes, poses and planes fitted in both cases; lower is better."""

    before: float
    after: float
    sigma: float  # of the difference, from its scatter between planes
    planes: int

    @property
    def better(self) -> bool:
        return self.before - self.after > _BETTER * self.sigma


def compare(stretches: Sequence[Stretch], corrections: np.ndarray) -> HeldOut:  # (B, 2)
    """Compare held-out stretches with and without corrections, on the planes found without them."""
    without = np.zeros_like(corrections)
    pairs = []
    for stretch in stretches:
        raw = adjust([stretch], without, None, _HELD_OUT_WIDTHS).stretches[0]
        planes = linearize(raw, without, _WIDTH).planes
        fixed = adjust([raw], corrections, None, _HELD_OUT_WIDTHS).stretches[0]
        costs = [_by_plane(linearize(state, chosen, _WIDTH, planes)) for state, chosen in ((raw, without), (fixed, corrections))]
        pairs.append(np.stack(costs, axis=1))
    both = np.concatenate(pairs) if pairs else np.empty((0, 2))  # (V, 2)
    both = both[np.isfinite(both).all(axis=1)]
    if len(both) < _LEAST_PLANES:
        raise InputError(f"the held-out scans show only {len(both)} planes; {_LEAST_PLANES} are needed: use a longer log")
    before, after = both.mean(axis=0)
    return HeldOut(float(before), float(after), float((both[:, 0] - both[:, 1]).std() / np.sqrt(len(both))), len(both))


def _by_plane(linear: Linear) -> np.ndarray:  # (V,)
    """Mean cost of the returns of each plane; NaN where fewer than `_LEAST_RETURNS` are usable."""
    counts = np.diff(linear.planes.starts)
    cost = np.log1p((linear.rows.residuals / (_WIDTH * linear.sigmas)) ** 2)
    sums = np.bincount(linear.planes.members, cost, minlength=len(counts))
    return np.where(counts >= _LEAST_RETURNS, sums / np.maximum(counts, 1), np.nan)


# Widths of the robust kernel, in sigmas: at first, planes are as thick as the errors make them.
_FIRST_WIDTHS, _WIDTHS = (8.0, 4.0, 2.0, 2.0), (4.0, 2.0, 2.0, 2.0)
_LOOKED_AT = 8  # scans in which beams are found
_IMPLAUSIBLE = np.array([3.0, 0.5])  # degrees, meters


@dataclass(frozen=True)
class Calibrated:
    """The result of `calibrate`. Use `calibration` only if it was `kept`: if held-out scans agree better with it than without."""

    calibration: BeamCalibration
    held_out: HeldOut
    scans: int  # used, including those held out
    meters: float  # driven in them

    @property
    def kept(self) -> bool:
        return self.held_out.better


@takes_config(CalibrateConfig)
def calibrate(
    scans: Dataset | Sequence[Scan],
    config: CalibrateConfig | None = None,
    *,
    max_scans: int = 240,
    voxel: float = 0.0,
    model: str = "lidar",
    deskew: Deskew = "auto",
    min_range: float = 0.0,
    max_range: float = 80.0,
    rounds: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Calibrated:
    """Find what to add to the elevation and the range of each beam of a spinning sensor, from a log alone.

    Odometry gives poses and a map of ellipsoids. Where these are flat, thin and of one direction, the returns of all beams and
    scans must lie on one plane. A joint least squares over beams, poses and planes makes them. The last quarter of the scans is
    held out and decides whether the result is `kept`.

    Args:
        scans: scans in order, such as a `poli.dataset`, as the sensor delivered them.
        config: the options as one object. Keywords override its values.
        max_scans: most scans to use; of a longer log, stretches that are spread evenly over it.
        voxel: voxel size of odometry in meters. 0: chosen at the first scan.
        model: a shipped model, or the path of a .safetensors file.
        deskew: undo the motion within scans, as in `poli.odometry`: "auto", "on", "off" or "azimuth".
        min_range: meters; nearer returns are dropped (the vehicle itself).
        max_range: meters; farther returns are dropped.
        rounds: of odometry and adjustment, each with the corrections of the round before.
        progress: called with the number of scans done and the total.
    """
    settings = config or CalibrateConfig()
    count = len(scans)
    if count < LEAST_SCANS:
        raise InputError(f"the log has {count} scans; calibrating beams needs at least {LEAST_SCANS}")
    looked_at = [_prepared(scans[i], settings) for i in np.linspace(0, count - 1, _LOOKED_AT).round().astype(int).tolist()]
    beams = find_beams(looked_at)
    deskewed = all(scan.stamp is not None and "time" in scan.fields for scan in looked_at)
    learned, kept_back = choose_stretches(count, settings.max_scans)
    total = settings.rounds * sum(map(len, learned)) + sum(map(len, kept_back))
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    def tracked(chosen: Sequence[range], calibration: BeamCalibration | None) -> list[Stretch]:
        odometry = OdometryConfig(
            voxel=settings.voxel,
            model=settings.model,
            deskew="on" if deskewed else "off",
            max_range=settings.max_range,
            on_loss="restart",
        )
        found = [track(lambda i: _prepared(scans[i], settings), numbers, beams, calibration, odometry, tell) for numbers in chosen]
        usable = [stretch for stretch in found if stretch is not None]
        if not usable:
            raise InputError(
                "odometry tracks no stretch of the log; drop returns of the vehicle (min_range), or use a log in which it works"
            )
        return usable

    corrections, sigmas = np.zeros((len(beams), 2)), np.zeros((len(beams), 2))
    expected = prior(len(beams), beams.rings)
    for number in range(settings.rounds):
        used = tracked(learned, beams.calibration(corrections, sigmas) if number else None)
        result = adjust(used, corrections, expected, _WIDTHS if number else _FIRST_WIDTHS)
        corrections = result.corrections
        sigmas = np.sqrt(np.diag(result.covariance)).reshape(2, len(beams)).T
        _check_size(beams, corrections)
    judged = tracked(kept_back, None)
    meters = sum(_length(stretch.poses) for stretch in (*used, *judged))
    scans_used = sum(len(stretch.poses) for stretch in (*used, *judged))
    verdict = compare(judged, corrections)
    about = _about(getattr(scans, "name", "a log"), scans_used, meters, verdict)
    return Calibrated(beams.calibration(corrections, sigmas, about), verdict, scans_used, meters)


def _prepared(scan: Scan, config: CalibrateConfig) -> Scan:
    scan = scan.clean()
    squared = np.einsum("ni,ni->n", scan.points, scan.points, dtype=np.float64)
    scan = scan.select((squared >= config.min_range**2) & (squared <= config.max_range**2))
    return PointTimes(OdometryConfig(deskew=config.deskew))(scan, PERIOD)


def _check_size(beams: Beams, corrections: np.ndarray) -> None:  # (B, 2)
    worst = np.abs(corrections).max(axis=0)
    if not (worst < _IMPLAUSIBLE).all():
        raise InputError(
            f"the surfaces of the log would need corrections of up to {worst[0]:.1f} degrees and {worst[1]:.2f} m, which no beam "
            f"of {len(beams)} has; check that the scans are of one spinning sensor, in its own frame with z up, and that point "
            "times are right or deskewing is off"
        )


def _length(poses: np.ndarray) -> float:  # (S, 4, 4)
    return float(np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1).sum())


def _about(name: str, scans: int, meters: float, verdict: HeldOut) -> str:
    return (
        f"Found by poli calibrate in {name}: {scans} scans, {meters:.0f} m.\n"
        f"Thickness of {verdict.planes} held-out planes (mean robust cost): {verdict.before:.4f} before, {verdict.after:.4f} "
        f"after, difference {verdict.before - verdict.after:.4f} +- {verdict.sigma:.4f}."
    )
