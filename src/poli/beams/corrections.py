"""Constant errors of the beams of a spinning sensor: what to add to the elevation and to the range of their returns.

A calibration is a small TOML file, which `poli calibrate` writes:

    format = "poli-beams"
    version = 1
    rings = "field"        # how returns find their beam: field, nearest or between
    about = "..."          # how the file was made, free text

    [[beam]]
    ring = 0               # only for rings = "field"
    elevation = -15.0      # nominal, in degrees above the plane of the sensor's x and y axes
    add_elevation = 0.102  # degrees to add to the elevation of its returns
    add_range = -0.013     # meters to add to their range
    sigma_elevation = 0.01 # standard deviations of the two, in the same units
    sigma_range = 0.004
"""

from __future__ import annotations

import os
from dataclasses import MISSING, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.atomic import atomic_path
from poli.io.tables import read_toml
from poli.options import check, option
from poli.scan import Scan

Rings = Literal["field", "nearest", "between"]
RING_FIELDS = ("ring", "channel", "laser_id")  # names of the field that numbers the beams
PERIOD = 0.1  # seconds per revolution, if neither stamps nor an option give it: most spinning sensors turn at 10 Hz
_FORMAT, _VERSION = "poli-beams", 1


@dataclass(frozen=True)
class Beam:
    """One beam, or one elevation between which corrections are interpolated. Larger numbers are mistakes of the unit."""

    elevation: float = option(MISSING, "Nominal.", unit="degrees", least=-90.0, most=90.0)
    add_elevation: float = option(0.0, "Added to the elevation of its returns.", unit="degrees", least=-10.0, most=10.0)
    add_range: float = option(0.0, "Added to their range.", unit="meters", least=-5.0, most=5.0)
    sigma_elevation: float = option(0.0, "Standard deviation of add_elevation.", unit="degrees", least=0.0, most=10.0)
    sigma_range: float = option(0.0, "Standard deviation of add_range.", unit="meters", least=0.0, most=5.0)
    ring: int | None = option(None, "Value of the field `ring`.", least=0)

    def __post_init__(self) -> None:
        check(self)
        for name in ("elevation", "add_elevation", "add_range", "sigma_elevation", "sigma_range"):
            object.__setattr__(self, name, float(getattr(self, name)))


@dataclass(frozen=True)
class BeamCalibration:
    """Corrections of the beams of one sensor. `apply` corrects a scan; `save` and `load` use a TOML file.

    `rings` says how a return finds its beam: by the scan's field `ring` ("field"), as the beam of the nearest elevation
    ("nearest"), or by interpolating linearly between the beams below and above it ("between", for sensors whose beams cannot be
    told apart).
    """

    beams: tuple[Beam, ...]  # ascending elevations, or ascending rings
    rings: Rings = "field"
    about: str = ""  # how it was made

    def __post_init__(self) -> None:
        object.__setattr__(self, "beams", tuple(self.beams))
        if self.rings not in get_args(Rings):
            raise InputError(f"rings is {self.rings!r}; expected one of {', '.join(get_args(Rings))}")
        if not self.beams:
            raise InputError("a calibration needs at least one [[beam]]")
        if self.rings == "field":
            numbers = [-1 if beam.ring is None else beam.ring for beam in self.beams]
            if min(numbers) < 0 or any(b <= a for a, b in pairwise(numbers)):
                raise InputError('rings = "field": every beam needs a ring, in ascending order')
        elif any(b.elevation <= a.elevation for a, b in pairwise(self.beams)):
            raise InputError(f'rings = "{self.rings}": the elevations of the beams must ascend')

    @property
    def corrections(self) -> np.ndarray:  # (B, 2)
        """Degrees to add to the elevation and meters to add to the range, beam by beam."""
        return np.array([[beam.add_elevation, beam.add_range] for beam in self.beams])

    @property
    def elevations(self) -> np.ndarray:  # (B,) degrees
        """The nominal elevation of each beam."""
        return np.array([beam.elevation for beam in self.beams])

    def corrected(self, corrections: np.ndarray, sigmas: np.ndarray, about: str = "") -> BeamCalibration:  # (B, 2), (B, 2)
        """Return the same beams with these corrections and standard deviations, in degrees and meters."""
        numbers = np.concatenate([corrections, sigmas], axis=1).tolist()
        pairs = zip(self.beams, numbers, strict=True)
        beams = [Beam(beam.elevation, up, out, su, so, beam.ring) for beam, (up, out, su, so) in pairs]
        return replace(self, beams=tuple(beams), about=about)

    def apply(self, scan: Scan) -> Scan:
        """Return the scan with corrected points; fields and the type of the points are unchanged.

        Elevations are those of the points in the frame of the scan. Returns of rings that the calibration does not have are kept
        as they are.
        """
        low, high, share = self.of_returns(scan)
        change = mixed(self.corrections, low, high, share) * (low >= 0)[:, None]
        return replace(scan, points=corrected(scan.points.astype(np.float64), change).astype(scan.points.dtype))

    def of_returns(self, scan: Scan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (N,), (N,), (N,)
        """The two beams of each return, and the share of the second. The first is -1 if the return has none."""
        if self.rings == "field":
            numbers = ring_numbers(scan)
            if numbers is None:
                raise InputError(
                    f"the calibration is by ring, but the scan has no field '{RING_FIELDS[0]}' (it has "
                    f"{', '.join(scan.fields) or 'no fields'}); calibrate on data without rings, or read the rings"
                )
            known = np.array([beam.ring for beam in self.beams])
            place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
            place = np.where(known[place] == numbers, place, -1)
            return place, place, np.zeros(len(scan))
        seen, nominal = elevations_of(scan.points), self.elevations
        if self.rings == "nearest":
            place = np.searchsorted(0.5 * (nominal[:-1] + nominal[1:]), seen)
            return place, place, np.zeros(len(scan))
        place = np.nan_to_num(np.interp(seen, nominal, np.arange(len(nominal))))  # of points that are no returns: any
        low = place.astype(np.int64)
        return low, np.minimum(low + 1, len(nominal) - 1), place - low

    # --- files

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BeamCalibration:
        """Read a TOML file that `save` has written. Raises FormatError if it is something else."""
        place = Path(path)
        try:
            found = read_toml(place)
        except FileNotFoundError:
            raise FormatError(f"{place}: no such file; `poli calibrate` writes calibrations") from None
        if (found.get("format"), found.get("version")) != (_FORMAT, _VERSION):
            raise FormatError(
                f'{place}: not a calibration of beams (format = "{_FORMAT}", version = {_VERSION}); `poli calibrate` writes them'
            )
        where, beams = str(place), []
        try:
            for number, entry in enumerate(found.get("beam", ()), 1):
                where = f"{place}, beam {number}"
                beams.append(Beam(**entry))
            where = str(place)
            return cls(tuple(beams), found.get("rings", "field"), str(found.get("about", "")))
        except (InputError, TypeError) as error:
            raise FormatError(f"{where}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a TOML file."""
        about = "".join(letter for letter in self.about if letter == "\n" or letter.isprintable())
        lines = [
            "# Constant errors of the beams of a LiDAR, for `--calibration` of poli's commands. Units: degrees and meters.",
            "# add_elevation is added to the elevation of a beam's returns, add_range to their range.",
            f'format = "{_FORMAT}"',
            f"version = {_VERSION}",
            f'rings = "{self.rings}"  # how returns find their beam: by the field `ring`, the nearest elevation, or between two',
            'about = """\n{}\n"""'.format(about.strip().replace("\\", "/").replace('"', "'")),
        ]
        for beam in self.beams:
            lines += ["", "[[beam]]"]
            lines += [f"ring = {beam.ring}"] if beam.ring is not None else []
            lines += [f"{name} = {value:.5f}" for name, value in vars(beam).items() if name != "ring"]
        with atomic_path(path) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- geometry


def ring_numbers(scan: Scan) -> np.ndarray | None:  # (N,) int64
    """The beam of each return, if the scan has a field that says so."""
    for name in RING_FIELDS:
        values = scan.fields.get(name)
        if values is not None and values.ndim == 1 and (values.dtype.kind in "iu" or (values == np.round(values)).all()):
            return values.astype(np.int64)
    return None


def elevations_of(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) degrees
    """The angles of points above the plane of x and y."""
    x, y, z = points.astype(np.float64).T
    return np.degrees(np.arctan2(z, np.hypot(x, y)))


def mixed(corrections: np.ndarray, low: np.ndarray, high: np.ndarray, share: np.ndarray) -> np.ndarray:  # (B, 2) -> (N, 2)
    """The corrections of returns between two beams, of which the second has a share."""
    return (1.0 - share)[:, None] * corrections[low] + share[:, None] * corrections[high]


def corrected(points: np.ndarray, corrections: np.ndarray) -> np.ndarray:  # (N, 3), (N, 2) degrees and meters -> (N, 3)
    """Turn each point up, about the horizontal axis at a right angle to its direction, and move it away from the origin."""
    # Points that are not finite or straight above stay as they are.
    sound = np.isfinite(points).all(axis=1) & (points[:, :2] != 0.0).any(axis=1)
    x, y, z = np.where(sound[:, None], points, 1.0).T
    level = np.hypot(x, y)
    elevation = np.arctan2(z, level) + np.radians(corrections[:, 0])
    farther = np.maximum(np.hypot(level, z) + corrections[:, 1], 0.0)
    scale = farther * np.cos(elevation) / level
    moved = np.stack([scale * x, scale * y, farther * np.sin(elevation)], axis=1)
    return np.where(sound[:, None], moved, points)


@dataclass(frozen=True)
class Spin:
    """How a sensor spins: the azimuth of a point says when it was measured, if the scan has no point times.

    The defaults are KITTI's: clockwise, starting behind the car, stamped when it faces forward (x).
    """

    clockwise: bool = option(
        True, "Deskewing by azimuth: how the sensor turns, seen from above.", flag="--clockwise/--counterclockwise"
    )
    start: float = option(
        180.0,
        "Deskewing by azimuth: where a revolution starts, counted from x toward y; 180 is behind.",
        unit="degrees",
        least=-360.0,
        most=360.0,
        flag="--sweep-start",
    )
    stamp: float = option(
        0.5,
        "Deskewing by azimuth: fraction of the revolution that has passed at the scan's stamp.",
        least=0.0,
        most=1.0,
        flag="--sweep-stamp",
    )

    def __post_init__(self) -> None:
        check(self)

    def times(self, points: np.ndarray, period: float = PERIOD) -> np.ndarray:  # (N, 3) -> (N,) seconds from the stamp
        """Return when each point was measured, if a revolution takes `period` seconds."""
        azimuth = np.arctan2(points[:, 1].astype(np.float64), points[:, 0].astype(np.float64))
        turned = azimuth / (2.0 * np.pi) - self.start / 360.0
        return period * (np.mod(-turned if self.clockwise else turned, 1.0) - self.stamp)

    def with_times(self, scan: Scan, period: float = PERIOD) -> Scan:
        """Return the scan with the field `time` derived from the azimuth; an existing one is replaced."""
        return replace(scan, fields={**scan.fields, "time": self.times(scan.points, period)})
