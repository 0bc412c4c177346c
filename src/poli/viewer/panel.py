"""Input of the viewers: named panels of points, ellipsoids and tracks, in one coordinate frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.options import real_array, real_number
from poli.scan import Scan, ScanLike, points_of

Color = tuple[float, float, float]  # in 0..1
Scalars = Mapping[str, np.ndarray]  # each (N,); NaN and infinity mean unknown

_CHANNELS = ("red", "green", "blue")
_PACKED = ("rgb", "rgba")  # four bytes per color, as PCL stores it
_THIN = 0.1  # thickness relative to a disc's radius


def scalars_of(scan: Scan) -> dict[str, np.ndarray]:  # each (N,)
    """The fields of a scan that hold one number per point, except for colors."""
    colors = {*_PACKED, *(_CHANNELS if colors_of(scan) is not None else ())}
    return {name: values for name, values in scan.fields.items() if values.ndim == 1 and name not in colors}


def colors_of(scan: Scan) -> np.ndarray | None:  # (N, 3) in 0..1
    """The colors in a scan's fields: red, green and blue in one or two bytes each, or packed into four bytes; None without any."""
    fields = scan.fields
    if all(name in fields and fields[name].ndim == 1 for name in _CHANNELS):
        channels = np.stack([fields[name] for name in _CHANNELS], axis=1).astype(np.float64)
        if not np.isfinite(channels).all() or channels.min(initial=0.0) < 0.0:
            return None
        largest = channels.max(initial=0.0)
        whole = all(fields[name].dtype.kind in "biu" for name in _CHANNELS)
        most = 1.0 if largest <= 1.0 and not whole else 255.0 if largest <= 255.0 else 65535.0
        return channels / most if largest <= most else None
    for name in _PACKED:
        values = fields.get(name)
        if values is not None and values.ndim == 1 and values.dtype.itemsize == 4:
            bits = np.ascontiguousarray(values).view(np.uint32)
            return np.stack([bits >> 16 & 255, bits >> 8 & 255, bits & 255], axis=1) / 255.0
    return None


@dataclass(frozen=True)
class Layer:
    """A number of consecutive points and ellipsoids of a panel with a name and one color: a cloud of two, or the added samples."""

    name: str
    points: int = 0
    ellipsoids: int = 0


@dataclass(eq=False)
class Frame:
    """One scan of a timeline, in the coordinates of its panel."""

    name: str
    points: ScanLike  # (N, 3)
    scalars: Scalars = attribute(default_factory=dict)  # of the points
    field: Ellipsoids | None = None
    field_scalars: Scalars = attribute(default_factory=dict)  # of the ellipsoids
    position: np.ndarray | None = None  # (3,), of the sensor
    seconds: float | None = None  # since the first frame
    total: int = 0  # points of the scan, if `points` are only some of them

    def __post_init__(self) -> None:
        owner = f"frame {self.name!r}"
        points = points_of(self.points, f"points of {owner}", least=0)
        self.points, self.scalars = points, _check_scalars(self.scalars, len(points), owner)
        self.field_scalars = _check_scalars(self.field_scalars, 0 if self.field is None else len(self.field), owner)
        self.position = _check_rows(self.position, f"position of {owner}", (3,))

    @property
    def places(self) -> np.ndarray:  # (N, 3)
        """The positions of its points."""
        return np.asarray(self.points)


@dataclass(eq=False)
class Track:
    """A polyline in a panel, such as the path of a sensor."""

    positions: np.ndarray  # (M, 3)
    name: str = "trajectory"
    color: Color | None = None  # default: chosen by the viewer

    def __post_init__(self) -> None:
        found = _check_rows(self.positions, f"positions of track {self.name!r}", (len(self.positions), 3))
        self.positions = np.empty((0, 3)) if found is None else found
        _check_rows(self.color, f"color of track {self.name!r}", (3,), color=True)


@dataclass(eq=False)
class Panel:
    """One of several views that share a camera.

    Give `points`, a `field`, or both. `normals`, `colors` and `scalars` belong to the points, row by row, or to the field's means
    if there are no points; a row of NaN in `normals` is an unknown normal, NaN in `scalars` an unknown value. `normals` default to
    those of the field. `layers` split the points and the field into named parts, `frames` are the scans of a timeline.
    """

    name: str
    points: ScanLike | None = None  # (N, 3)
    field: Ellipsoids | None = None
    normals: np.ndarray | None = None  # (N, 3)
    colors: np.ndarray | None = None  # (N, 3) in 0..1
    caption: str = ""
    tracks: tuple[Track, ...] = ()
    sigma_scale: float = 1.0  # factor on the viewer's sigma; the viewer displays it
    directions_only: bool = False  # the field's sizes have no meaning (`flat_discs`): no color shows them
    scalars: Scalars = attribute(default_factory=dict)  # such as the intensity
    viewpoint: np.ndarray | None = None  # (3,), the sensor that all points were seen from; None: unknown, or several
    layers: tuple[Layer, ...] = ()
    frames: tuple[Frame, ...] = ()
    frames_share_world: bool = True  # the frames are in one coordinate frame, so that all of them can be shown at once

    def __post_init__(self) -> None:
        owner = f"panel {self.name!r}"
        if self.points is None and self.field is None and not self.tracks and not self.frames:
            raise InputError(f"{owner} has nothing to show; pass points, a field, tracks or frames")
        real_number(self.sigma_scale, f"sigma_scale of {owner}", "a positive number", above=True)
        if self.points is not None:
            self.points = points_of(self.points, f"points of {owner}", least=0)
        rows = len(self.places)
        self.normals = _check_rows(self.normals, f"normals of {owner}", (rows, 3), unknown=True)
        self.colors = _check_rows(self.colors, f"colors of {owner}", (rows, 3), color=True)
        self.scalars = _check_scalars(self.scalars, rows, owner)
        self.viewpoint = _check_rows(self.viewpoint, f"viewpoint of {owner}", (3,))
        counts = {"points": 0 if self.points is None else rows, "ellipsoids": 0 if self.field is None else len(self.field)}
        for what, count in counts.items():
            held = sum(getattr(layer, what) for layer in self.layers)
            if self.layers and held != count:
                raise InputError(f"layers of {owner} have {held} {what} in total; it has {count}")

    @property
    def places(self) -> np.ndarray:  # (N, 3)
        """The positions of its points; without points, the field's means."""
        if self.points is not None:
            return np.asarray(self.points)
        return np.empty((0, 3)) if self.field is None else self.field.means

    @property
    def everything(self) -> list[np.ndarray]:  # each (n, 3)
        """All positions in the panel: of points, ellipsoids, tracks and frames."""
        parts = [self.places, *(track.positions for track in self.tracks), *(frame.places for frame in self.frames)]
        if self.field is not None and self.points is not None:
            parts.append(self.field.means)
        return [part for part in parts if len(part)]

    @property
    def place_normals(self) -> np.ndarray | None:  # (N, 3)
        """Unit normals of `places`, zero if unknown; None if all are unknown."""
        if self.normals is not None:
            length = np.linalg.norm(self.normals, axis=1, keepdims=True)
            known = np.isfinite(length) & (length > 0.0)
            return np.where(known, self.normals / np.where(known, length, 1.0), 0.0)
        return self.field.normals if self.field is not None and self.shows_means else None

    @property
    def shows_means(self) -> bool:
        """Whether its points are the means of its field, row by row."""
        return self.field is not None and (self.points is None or np.array_equal(np.asarray(self.points), self.field.means))


def flat_discs(points: ScanLike, normals: np.ndarray, sigma: float) -> Ellipsoids:  # (N, 3), (N, 3)
    """Thin discs that visualize known normals, with a standard deviation of `sigma` meters; rows with NaN normals are dropped."""
    places = points_of(points, least=0)
    _check_rows(normals, "normals", places.shape, unknown=True)
    sigma = real_number(sigma, "sigma", "a positive number of meters", above=True)
    known = np.isfinite(normals).all(axis=1) & (np.abs(normals).max(axis=1, initial=0.0) > 0.0)
    places, normals = places[known], normals[known]
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    covariances = sigma**2 * (np.eye(3) - (1.0 - _THIN**2) * normals[:, :, None] * normals[:, None, :])
    return Ellipsoids.trusted(places, covariances, places + normals)  # viewpoints that preserve the normals' signs


def _check_scalars(scalars: Scalars, rows: int, owner: str) -> dict[str, np.ndarray]:
    """Check that each field has one real number per row."""
    checked = {str(name): np.asarray(values) for name, values in scalars.items()}
    for name, array in checked.items():
        if array.shape != (rows,) or array.dtype.kind not in "biuf":
            raise InputError(f"scalar {name!r} of {owner}: {array.dtype} of shape {array.shape}; expected {rows} numbers")
    return checked


def _check_rows(values: object, name: str, shape: tuple[int, ...], color: bool = False, unknown: bool = False) -> np.ndarray | None:
    """Check finite numbers, if there are any: `color`: between 0 and 1; `unknown`: NaN is allowed."""
    if values is None:
        return None
    rows = real_array(values, name)
    low, high = (0.0, 1.0) if color else (-np.inf, np.inf)
    if rows.shape != shape or not (unknown or (np.isfinite(rows) & (rows >= low) & (rows <= high)).all()):
        kind = "numbers between 0 and 1" if color else "numbers" if unknown else "finite numbers"
        raise InputError(f"{name} have shape {rows.shape}; expected {kind} of shape {shape}")
    return rows
