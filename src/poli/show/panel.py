"""Input of the viewers: named panels of points, ellipsoids and tracks, in one coordinate frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.scan import ScanLike, points_of
from poli.show.parts import Frame, Layer, check_layers
from poli.show.scalars import check_scalars
from poli.validation import real_array, real_number

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
