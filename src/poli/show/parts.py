"""Parts of a panel: layers, which can be switched on and off, and frames, which are shown one at a time along a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.scan import ScanLike, points_of
from poli.show.scalars import check_scalars
from poli.validation import real_array, whole_number


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
