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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from poli.errors import FormatError, InputError, did_you_mean
from poli.io.atomic import atomic_path
from poli.io.tables import read_toml
from poli.options import check, option
from poli.scan import Scan

Rings = Literal["field", "nearest", "between"]
RING_FIELDS = ("ring", "channel", "laser_id")  # names of the field that numbers the beams
_FORMAT, _VERSION = "poli-beams", 1
_MOST = 4096  # beams in a file
_LARGEST = {"add_elevation": 10.0, "add_range": 5.0}  # degrees, meters: larger corrections are mistakes of the unit
_NUMBERS = ("elevation", "add_elevation", "add_range", "sigma_elevation", "sigma_range")


@dataclass(frozen=True)
class Beam:
    """One beam, or one elevation between which corrections are interpolated."""

    elevation: float  # degrees, nominal
    add_elevation: float = 0.0  # degrees
    add_range: float = 0.0  # meters
    sigma_elevation: float = 0.0  # degrees, of add_elevation
    sigma_range: float = 0.0  # meters, of add_range
    ring: int | None = None  # value of the field `ring`

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or not np.isfinite(value):
                raise InputError(f"{name} is {value!r}; expected a number")
        if not -90.0 < self.elevation < 90.0:
            raise InputError(f"elevation is {self.elevation}; expected degrees between -90 and 90")
        for name, largest in _LARGEST.items():
            if abs(getattr(self, name)) > largest:
                unit = "degrees" if name == "add_elevation" else "meters"
                raise InputError(f"{name} is {getattr(self, name)}; expected at most {largest:g} {unit}")
        if min(self.sigma_elevation, self.sigma_range) < 0.0:
            raise InputError("sigma_elevation and sigma_range must be at least 0")
        if self.ring is not None and (isinstance(self.ring, bool) or not isinstance(self.ring, int) or self.ring < 0):
            raise InputError(f"ring is {self.ring!r}; expected a whole number of at least 0")


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
        if not 1 <= len(self.beams) <= _MOST:
            raise InputError(f"a calibration has 1 to {_MOST} beams, not {len(self.beams)}")
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

    def apply(self, scan: Scan) -> Scan:
        """Return the scan with corrected points; fields and the type of the points are unchanged.

        Elevations are those of the points in the frame of the scan. Returns of rings that the calibration does not have are kept
        as they are.
        """
        points = corrected(scan.points.astype(np.float64), self._of_returns(scan))
        return replace(scan, points=points.astype(scan.points.dtype))

    def _of_returns(self, scan: Scan) -> np.ndarray:  # (N, 2)
        """The corrections of each return."""
        if self.rings == "field":
            numbers = ring_numbers(scan)
            if numbers is None:
                raise InputError(
                    f"the calibration is by ring, but the scan has no field '{RING_FIELDS[0]}' (it has "
                    f"{', '.join(scan.fields) or 'no fields'}); calibrate on data without rings, or read the rings"
                )
            known = np.array([beam.ring for beam in self.beams])
            place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
            return np.where((known[place] == numbers)[:, None], self.corrections[place], 0.0)
        elevations = elevations_of(scan.points)
        nominal = np.array([beam.elevation for beam in self.beams])
        if self.rings == "between":
            return np.stack([np.interp(elevations, nominal, column) for column in self.corrections.T], axis=1)
        return self.corrections[np.searchsorted(0.5 * (nominal[:-1] + nominal[1:]), elevations)]

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a TOML file."""
        with atomic_path(path) as temporary:
            temporary.write_text(self._as_toml(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BeamCalibration:
        """Read a TOML file that `save` has written. Raises FormatError if it is something else."""
        place = Path(path)
        try:
            found = read_toml(place)
        except FileNotFoundError:
            raise FormatError(f"{place}: no such file; `poli calibrate` writes calibrations") from None
        if found.get("format") != _FORMAT:
            raise FormatError(f'{place}: not a calibration of beams (no format = "{_FORMAT}"); `poli calibrate` writes them')
        if found.get("version") != _VERSION:
            raise FormatError(f"{place}: version {str(found.get('version'))[:40]!r}; this release reads version {_VERSION}")
        _check_keys(found, ("format", "version", "rings", "about", "beam"), str(place))
        entries, about = found.get("beam"), found.get("about", "")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries) or not entries:
            raise FormatError(f"{place}: has no [[beam]] tables; expected one per beam")
        if not isinstance(about, str):
            raise FormatError(f"{place}: about is {str(about)[:40]!r}; expected text")
        beams = [_beam(entry, f"{place}, beam {number}") for number, entry in enumerate(entries, 1)]
        try:
            return cls(tuple(beams), found.get("rings", "field"), about)
        except (InputError, TypeError) as error:
            raise FormatError(f"{place}: {error}") from None

    def _as_toml(self) -> str:
        about = "\n".join(line.rstrip().replace("\\", "/").replace('"', "'") for line in self.about.strip().splitlines())
        head = [
            "# Constant errors of the beams of a LiDAR, for `--calibration` of poli's commands. Units: degrees and meters.",
            "# add_elevation is added to the elevation of a beam's returns, add_range to their range.",
            f'format = "{_FORMAT}"',
            f"version = {_VERSION}",
            f'rings = "{self.rings}"  # {_MEANING[self.rings]}',
            f'about = """\n{_printable(about)}\n"""',
        ]
        for beam in self.beams:
            head += ["", "[[beam]]"]
            head += [f"ring = {beam.ring}"] if beam.ring is not None else []
            head += [f"{name} = {float(getattr(beam, name)):.5f}" for name in _NUMBERS]
        return "\n".join(head) + "\n"


_MEANING = {
    "field": "a return's beam is its field `ring`",
    "nearest": "a return's beam is that of the nearest elevation",
    "between": "corrections are interpolated between these elevations",
}


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter == "\n" or letter.isprintable())


def _beam(entry: Mapping[str, Any], where: str) -> Beam:
    _check_keys(entry, ("ring", *_NUMBERS), where)
    if "elevation" not in entry:
        raise FormatError(f"{where}: has no elevation; expected the nominal elevation of the beam in degrees")
    try:
        return Beam(**entry)
    except (InputError, TypeError) as error:
        raise FormatError(f"{where}: {error}") from None


def _check_keys(entry: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in known:
            raise FormatError(f"{where}: unknown entry {key[:40]!r}; expected {', '.join(known)}{did_you_mean(key, known)}")


# --- geometry


def ring_numbers(scan: Scan) -> np.ndarray | None:  # (N,) int64
    """The beam of each return, if the scan has a field that says so."""
    for name in RING_FIELDS:
        values = scan.fields.get(name)
        if values is not None and values.ndim == 1 and (values.dtype.kind in "iu" or (values == np.round(values)).all()):
            return values.astype(np.int64)
    return None


def elevations_of(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) degrees
    x, y, z = points.astype(np.float64).T
    return np.degrees(np.arctan2(z, np.hypot(x, y)))


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


# --- Point times of spinning sensors that recorded none: the azimuth says when the sensor faced a point.


PERIOD = 0.1  # seconds per revolution, if neither stamps nor an option give it: most spinning sensors turn at 10 Hz


@dataclass(frozen=True)
class Spin:
    """How a sensor spins. The defaults are KITTI's: clockwise, starting behind the car, stamped when it faces forward (x)."""

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
