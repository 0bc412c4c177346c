"""Input of the viewers: named panels of points, ellipsoids and tracks, in one coordinate frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.options import real_array, real_number, whole_number
from poli.scan import Scan, ScanLike, points_of

# --- Fields of scans in viewers: which of them are scalars or colors, their units, and the range of a color scale.


_RANGE = 2.0, 98.0  # percentiles spanned by a color scale: a few odd values would use up most of its colors
_CHANNELS = ("red", "green", "blue")
_PACKED = ("rgb", "rgba")  # four bytes per color, as PCL stores it
# Units that a name implies. Readers convert the times of points to seconds and call them `time`; for others, files do not say.
_UNITS = {"time": "s", "gps_time": "s", "range": "m"}


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


def unit_of(name: str) -> str:
    """The unit of a field, or nothing if its name does not imply one."""
    return _UNITS.get(name, "")


def check_scalars(scalars: Mapping[str, np.ndarray], rows: int, owner: str) -> dict[str, np.ndarray]:
    """Check that each field has one real number per row. NaN and infinity mean unknown."""
    checked = {}
    for name, values in scalars.items():
        array = np.asarray(values)
        if array.shape != (rows,) or array.dtype.kind not in "biuf":
            raise InputError(f"scalar {name!r} of {owner}: {array.dtype} of shape {array.shape}; expected {rows} numbers")
        checked[str(name)] = array
    return checked


def scalar_range(parts: Iterable[np.ndarray]) -> tuple[float, float]:
    """The robust range of a field over all parts, for its color scale: without the outer 2 % on either side."""
    known = [values[np.isfinite(values)].astype(np.float64) for values in parts]
    together = np.concatenate(known) if known else np.zeros(0)
    if not len(together):
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(together, _RANGE))
    if low == high:  # most values are equal, such as in a field of flags
        low, high = float(together.min()), float(together.max())
    return low, high


# --- Parts of a panel: layers, which can be switched on and off, and frames, which are shown one at a time along a timeline.


@dataclass(frozen=True)
class Layer:
    """A number of consecutive points and ellipsoids of a panel with a name and one color: a cloud of two, or the added samples."""

    name: str
    points: int = 0
    ellipsoids: int = 0
    color: tuple[float, float, float] | None = None  # in 0..1; default: chosen by the viewer

    def __post_init__(self) -> None:
        for what in ("points", "ellipsoids"):
            whole_number(getattr(self, what), f"{what} of layer {self.name!r}", least=0)


@dataclass(frozen=True, eq=False)
class Frame:
    """One scan of a timeline, in the coordinates of its panel."""

    name: str
    points: ScanLike  # (N, 3)
    scalars: Mapping[str, np.ndarray] = attribute(default_factory=dict)  # each (N,), of the points
    field: Ellipsoids | None = None
    field_scalars: Mapping[str, np.ndarray] = attribute(default_factory=dict)  # each (M,), of the ellipsoids
    position: np.ndarray | None = None  # (3,), of the sensor
    seconds: float | None = None  # since the first frame
    total: int = 0  # points of the scan, if `points` are only some of them

    def __post_init__(self) -> None:
        owner = f"frame {self.name!r}"
        points = points_of(self.points, f"points of {owner}", least=0)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "scalars", check_scalars(self.scalars, len(points), owner))
        count = 0 if self.field is None else len(self.field)
        object.__setattr__(self, "field_scalars", check_scalars(self.field_scalars, count, owner))
        if self.position is not None:
            position = real_array(self.position, f"position of {owner}")
            if position.shape != (3,) or not np.isfinite(position).all():
                raise InputError(f"position of {owner} is {self.position!r}; expected three finite numbers")
            object.__setattr__(self, "position", position)

    @property
    def places(self) -> np.ndarray:  # (N, 3)
        return np.asarray(self.points)


def check_layers(layers: tuple[Layer, ...], points: int, ellipsoids: int, owner: str) -> None:
    """Check that the layers contain every point and every ellipsoid of a panel."""
    for what, count in (("points", points), ("ellipsoids", ellipsoids)):
        held = sum(getattr(layer, what) for layer in layers)
        if layers and held != count:
            raise InputError(f"layers of {owner} have {held} {what} in total; it has {count}")


_THIN = 0.1  # thickness relative to a disc's radius


@dataclass(frozen=True, eq=False)
class Track:
    """A polyline in a panel, such as the path of a sensor."""

    positions: np.ndarray  # (M, 3)
    name: str = "trajectory"
    color: tuple[float, float, float] | None = None  # in 0..1; default: chosen by the viewer

    def __post_init__(self) -> None:
        places = _finite_rows(self.positions, f"positions of track {self.name!r}")
        object.__setattr__(self, "positions", places)
        if self.color is not None:
            _check_colors(np.array([self.color]), f"color of track {self.name!r}", 1)


@dataclass(frozen=True, eq=False)
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
    scalars: Mapping[str, np.ndarray] = attribute(default_factory=dict)  # each (N,), such as the intensity
    viewpoint: np.ndarray | None = None  # (3,), the sensor that all points were seen from; None: unknown, or several
    layers: tuple[Layer, ...] = ()
    frames: tuple[Frame, ...] = ()
    frames_share_world: bool = True  # the frames are in one coordinate frame, so that all of them can be shown at once

    def __post_init__(self) -> None:
        if self.points is None and self.field is None and not self.tracks and not self.frames:
            raise InputError(f"panel {self.name!r} has nothing to show; pass points, a field, tracks or frames")
        if self.points is not None:
            object.__setattr__(self, "points", points_of(self.points, f"points of panel {self.name!r}", least=0))
        real_number(self.sigma_scale, f"sigma_scale of panel {self.name!r}", "a positive number", above=True)
        rows = len(self.places)
        if self.normals is not None:
            normals = real_array(self.normals, f"normals of panel {self.name!r}")
            if normals.shape != (rows, 3):
                raise InputError(f"normals of panel {self.name!r} have shape {normals.shape}; expected ({rows}, 3), one per point")
            object.__setattr__(self, "normals", normals)
        if self.colors is not None:
            object.__setattr__(self, "colors", _check_colors(self.colors, f"colors of panel {self.name!r}", rows))
        object.__setattr__(self, "scalars", check_scalars(self.scalars, rows, f"panel {self.name!r}"))
        if self.viewpoint is not None:
            object.__setattr__(self, "viewpoint", _finite_rows(np.reshape(self.viewpoint, (-1, 3)), "viewpoint")[0])
        count = 0 if self.field is None else len(self.field)
        check_layers(self.layers, 0 if self.points is None else len(self.places), count, f"panel {self.name!r}")

    @property
    def places(self) -> np.ndarray:  # (N, 3)
        """The positions of its points; without points, the field's means."""
        if self.points is not None:
            return np.asarray(self.points)
        return np.empty((0, 3)) if self.field is None else self.field.means

    @property
    def place_normals(self) -> np.ndarray | None:  # (N, 3)
        """Unit normals of `places`, zero if unknown; None if all are unknown."""
        if self.normals is not None:
            length = np.linalg.norm(self.normals, axis=1, keepdims=True)
            known = np.isfinite(length) & (length > 0.0)
            return np.where(known, self.normals / np.where(known, length, 1.0), 0.0)
        if self.field is not None and (self.points is None or self.shows_means):
            return self.field.normals
        return None

    @property
    def shows_means(self) -> bool:
        """Whether its points are the means of its field, row by row."""
        return self.field is not None and (self.points is None or np.array_equal(np.asarray(self.points), self.field.means))


def flat_discs(points: ScanLike, normals: np.ndarray, sigma: float) -> Ellipsoids:  # (N, 3), (N, 3)
    """Thin discs that visualize known normals, with a standard deviation of `sigma` meters; rows with NaN normals are dropped."""
    places, normals = points_of(points, least=0), real_array(normals, "normals")
    sigma = real_number(sigma, "sigma", "a positive number of meters", above=True)
    if normals.shape != places.shape:
        raise InputError(f"normals have shape {normals.shape}; expected {places.shape}, one per point")
    known = np.isfinite(normals).all(axis=1) & (np.abs(normals).max(axis=1, initial=0.0) > 0.0)
    places, normals = places[known], normals[known]
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    covariances = sigma**2 * (np.eye(3) - (1.0 - _THIN**2) * normals[:, :, None] * normals[:, None, :])
    return Ellipsoids.trusted(places, covariances, places + normals)  # viewpoints that preserve the normals' signs


def _finite_rows(values: np.ndarray, name: str) -> np.ndarray:  # (M, 3)
    places = real_array(values, name)
    if places.ndim != 2 or places.shape[1] != 3 or not np.isfinite(places).all():
        raise InputError(f"{name} have shape {places.shape}; expected finite numbers of shape (M, 3)")
    return places


def _check_colors(values: np.ndarray, name: str, rows: int) -> np.ndarray:  # (rows, 3)
    colors = real_array(values, name)
    if colors.shape != (rows, 3) or not ((colors >= 0.0) & (colors <= 1.0)).all():
        raise InputError(f"{name}: expected numbers between 0 and 1 of shape ({rows}, 3); shape is {colors.shape}")
    return colors
