"""Faults of real LiDARs, added to simulated scans: range errors, lost returns, and returns between two surfaces.

The values were measured in seven real sequences of four sensors. The same measures of simulated scans, which have known faults,
were subtracted: what a scene alone explains is not a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from poli.errors import InputError
from poli.scan import Scan

RANGES = (2.5, 7.5, 15.0, 30.0, 60.0)  # meters, centers of the bins in which faults were measured
INCIDENCES = (15.0, 40.0, 57.5, 70.0, 80.0)  # degrees
Table = tuple[float, float, float, float, float]

_EVEN: Table = (1.0, 1.0, 1.0, 1.0, 1.0)
_SLOW_STEP = np.radians(2.0)  # of azimuth: slow errors change over about this angle
_EDGE, _DEEPEST = 0.3, 1.5  # meters: mixed returns occur at edges that are at least and at most this deep
_NEXT = 2.0  # median steps: farther apart, two returns on a ring are not neighbors
_HIGHEST = 0.9  # share of lost returns
_NEAREST = 0.1  # meters: no error brings a return nearer to the sensor
_BEYOND = 0.25  # spread of the logarithm beyond the measured sensors
_MANY = 65_536  # rings


@dataclass(frozen=True)
class Faults:
    """Faults of one sensor. Both scans of a pair have the same; the noise is drawn for each."""

    beam_offset: float  # meters: standard deviation over the rings of a constant error of the range
    noise: float  # meters, one sigma, independent for each return, at short range and head-on
    slow_noise: float  # meters, one sigma, alike for neighbors on a ring
    tail_share: float  # share of the returns whose noise is `tail_width` times as large
    tail_width: float
    dropout: float  # share of lost returns
    run_length: float  # how many neighbors on a ring are lost together, on average
    mixed: float  # share of the edges at which a return lies between the two surfaces
    noise_by_range: Table = _EVEN  # factors of `noise` at RANGES
    noise_by_incidence: Table = _EVEN  # at INCIDENCES
    dropout_by_range: Table = _EVEN  # factors of `dropout`
    dropout_by_incidence: Table = _EVEN
    beam_seed: int = 0  # of the offsets of the rings

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not np.all(np.isfinite(value)) or np.min(value) < 0.0:
                raise InputError(f"faults: {one.name} is {value}; expected finite numbers, 0 or more")
            if one.name.endswith(("_by_range", "_by_incidence")) and len(value) != len(RANGES):
                raise InputError(f"faults: {one.name} has {len(value)} numbers; expected {len(RANGES)}")
        if max(self.tail_share, self.dropout, self.mixed) > 1.0 or self.run_length < 1.0:
            raise InputError("faults: tail_share, dropout and mixed must be at most 1, run_length at least 1")

    def offsets(self, count: int) -> np.ndarray:  # (count,) meters
        """The constant error of each ring."""
        return self.beam_offset * np.random.default_rng([self.beam_seed, 3]).standard_normal(count)


# KITTI: three sequences of one car; nuScenes: two of different cars; MulRan and a handheld E1R: one each. The noise of the HDL-64E
# is 0.9 to 1.6 cm, of the HDL-32E 0.5, of the OS1-64 3.0, of the E1R 1.2. Its growth with range and incidence is mostly that of the
# simulated scans, too, except for the E1R, which has no returns beyond 10 m: the last factors are those at 10 m.
FAMILIES: dict[str, Faults] = {
    "hdl64e": Faults(
        beam_offset=0.022,
        noise=0.011,
        slow_noise=0.012,
        tail_share=0.06,
        tail_width=5.0,
        dropout=0.007,
        run_length=2.5,
        mixed=0.33,
        noise_by_incidence=(1.0, 1.05, 1.1, 1.1, 1.15),
        dropout_by_range=(2.3, 0.7, 0.75, 1.1, 2.4),
        dropout_by_incidence=(1.75, 2.0, 1.6, 0.8, 0.4),
    ),
    "hdl32e": Faults(
        beam_offset=0.008,
        noise=0.0045,
        slow_noise=0.007,
        tail_share=0.1,
        tail_width=5.0,
        dropout=0.0075,
        run_length=1.55,
        mixed=0.1,
        noise_by_range=(1.0, 1.1, 1.15, 1.2, 1.2),
        noise_by_incidence=(1.0, 1.0, 1.2, 1.1, 1.3),
        dropout_by_range=(0.95, 0.7, 1.4, 1.9, 8.0),
        dropout_by_incidence=(1.6, 2.5, 1.2, 0.65, 0.75),
    ),
    "os1_64": Faults(
        beam_offset=0.011,
        noise=0.029,
        slow_noise=0.014,
        tail_share=0.015,
        tail_width=5.0,
        dropout=0.0035,
        run_length=2.1,
        mixed=0.24,
        noise_by_range=(1.0, 1.0, 1.0, 1.2, 1.4),
        dropout_by_range=(0.4, 0.4, 0.8, 2.9, 9.0),
        dropout_by_incidence=(3.0, 3.0, 1.2, 0.25, 0.25),
    ),
    "e1r": Faults(
        beam_offset=0.004,
        noise=0.011,
        slow_noise=0.01,
        tail_share=0.05,
        tail_width=5.0,
        dropout=0.013,
        run_length=3.6,
        mixed=0.8,
        noise_by_range=(1.0, 1.75, 2.0, 2.0, 2.0),
        noise_by_incidence=(1.2, 1.05, 1.0, 1.2, 1.6),
        dropout_by_range=(0.85, 1.6, 2.0, 2.0, 2.0),
        dropout_by_incidence=(0.4, 0.9, 0.55, 1.15, 11.7),
    ),
}


def draw_faults(rng: np.random.Generator, families: Sequence[Faults] = tuple(FAMILIES.values())) -> Faults:
    """Draw the faults of a sensor between the measured ones, and a little beyond.

    Every value is the weighted geometric mean of the measured values, with one set of weights for all values, since faults go
    together, times a log-normal factor.
    """
    weights = rng.dirichlet(np.full(len(families), 0.7))
    drawn: dict[str, object] = {}
    for one in fields(Faults):
        if one.name == "beam_seed":
            continue
        values = np.log(np.maximum(np.array([getattr(family, one.name) for family in families]), 1e-6))
        mean = np.exp(weights @ values)
        drawn[one.name] = tuple(float(v) for v in mean) if mean.ndim else float(mean * np.exp(_BEYOND * rng.standard_normal()))
    capped = {"tail_share": 0.3, "dropout": 0.2, "mixed": 0.95}
    drawn |= {name: min(float(drawn[name]), most) for name, most in capped.items()}  # type: ignore[arg-type]
    drawn["run_length"] = max(1.0, float(drawn["run_length"]))  # type: ignore[arg-type]
    return Faults(**drawn, beam_seed=int(rng.integers(2**31)))  # type: ignore[arg-type]


def apply_faults(scan: Scan, faults: Faults, rng: np.random.Generator) -> Scan:
    """Return the scan with range errors along the rays from the origin, with mixed returns, and without lost returns.

    The scan has the fields `ring` and `normal`, and its returns are in the order in which `sweep` made them. If it has the field
    `mixed`, returns that are moved between two surfaces are marked in it. The ground truth does not change.
    """
    missing = [name for name in ("ring", "normal") if name not in scan.fields]
    if missing:
        raise InputError(f"this scan has no field {missing[0]!r}; faults need the rings and normals of a simulated scan")
    if not len(scan):
        return scan
    order = np.argsort(scan.fields["ring"], kind="stable")  # neighbors on a ring become neighbors in the array
    ring = scan.fields["ring"][order].astype(np.int64)
    if ring[-1] >= _MANY or ring[0] < 0:
        raise InputError(f"field 'ring': {int(ring[0])} to {int(ring[-1])}; expected numbers from 0 to {_MANY - 1}")
    points, normals = (a[order].astype(np.float64) for a in (scan.points, scan.fields["normal"]))
    length = np.maximum(np.sqrt(np.einsum("ni,ni->n", points, points)), 1e-3)
    rays = points / length[:, None]
    cosine = np.einsum("ni,ni->n", normals, rays)
    incidence = np.degrees(np.arccos(np.clip(np.abs(cosine), 0.0, 1.0)))
    moved, at_edge = _mixed(length, rays, normals, cosine, ring, faults.mixed, rng)
    sigma = faults.noise * _factor(length, incidence, faults.noise_by_range, faults.noise_by_incidence)
    sigma[rng.random(len(sigma)) < faults.tail_share] *= faults.tail_width
    error = sigma * rng.standard_normal(len(sigma)) + faults.offsets(int(ring[-1]) + 1)[ring]
    error += faults.slow_noise * _slow(points, ring, rng)
    result = np.empty_like(scan.points)
    result[order] = rays * np.maximum(moved + error, _NEAREST)[:, None]
    share = faults.dropout * _factor(length, incidence, faults.dropout_by_range, faults.dropout_by_incidence)
    kept = np.empty(len(order), bool)
    kept[order] = ~_lost(np.minimum(share, _HIGHEST), faults.run_length, rng)
    marked = scan.fields
    if "mixed" in marked:
        flags = marked["mixed"].copy()
        flags[order[at_edge]] = 1
        marked = {**marked, "mixed": flags}
    return replace(scan, points=result, fields=marked).select(kept)


def _factor(length: np.ndarray, incidence: np.ndarray, by_range: Table, by_incidence: Table) -> np.ndarray:  # (N,), (N,) -> (N,)
    """Both factors of each return, interpolated between the centers of the bins."""
    return np.interp(length, RANGES, by_range) * np.interp(incidence, INCIDENCES, by_incidence)


def _slow(points: np.ndarray, ring: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # (N, 3), (N,) -> (N,)
    """Noise of unit variance that changes slowly along a ring: independent values every `_SLOW_STEP`, and linear in between."""
    knots = round(2.0 * np.pi / _SLOW_STEP)
    values = rng.standard_normal((int(ring[-1]) + 1, knots))
    place = np.arctan2(points[:, 1], points[:, 0]) / (2.0 * np.pi) * knots
    left = np.floor(place)
    share = place - left
    left = left.astype(np.int64) % knots
    mean = (1.0 - share) * values[ring, left] + share * values[ring, (left + 1) % knots]
    return mean / np.sqrt((1.0 - share) ** 2 + share**2)


def _lost(share: np.ndarray, run_length: float, rng: np.random.Generator) -> np.ndarray:  # (N,) -> (N,) bool
    """Which returns are lost, in runs of geometrically distributed length."""
    # Runs overlap. If they begin at a return with probability a, log(1 - share) is the sum over k of log(1 - a q^k), with
    # q = 1 - 1 / run_length: about -a run_length - a^2 / (2 (1 - q^2)), which is solved for a.
    curve = 1.0 / (1.0 - (1.0 - 1.0 / run_length) ** 2)
    rate = np.minimum((np.sqrt(run_length**2 - 2.0 * curve * np.log1p(-share)) - run_length) / curve, share)
    first = np.flatnonzero(rng.random(len(share)) < rate)
    ends = np.minimum(first + rng.geometric(1.0 / run_length, len(first)), len(share))
    running = np.bincount(first, minlength=len(share) + 1) - np.bincount(ends, minlength=len(share) + 1)
    return np.cumsum(running)[:-1] > 0


def _mixed(
    length: np.ndarray,
    rays: np.ndarray,
    normals: np.ndarray,
    cosine: np.ndarray,
    ring: np.ndarray,
    share: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranges, a share of those at edges moved between the two surfaces, and the rows that were moved."""
    gap = np.abs(length[1:] - length[:-1])
    near = np.flatnonzero((ring[1:] == ring[:-1]) & (gap > _EDGE) & (gap < _DEEPEST))
    turns = rays[1:] - rays[:-1]
    turn = np.einsum("ni,ni->n", turns, turns)
    near = near[turn[near] < _NEXT**2 * np.median(turn)]
    # A slanted surface is no edge: from neither side does the other return lie on the plane of this one.
    for a, b in ((0, 1), (1, 0)):
        this, other = near + a, near + b
        along = np.einsum("ni,ni->n", normals[this], rays[other])
        plane = length[this] * cosine[this] / np.where(np.abs(along) > 1e-3, along, 1e-3)
        near = near[np.abs(plane - length[other]) > _EDGE]
    near = near[rng.random(len(near)) < share]
    row = near + rng.integers(0, 2, len(near))
    moved = length.copy()
    moved[row] = length[near] + rng.random(len(near)) * (length[near + 1] - length[near])
    return moved, row
