"""A scan: points with their fields."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.pointcloud2 import PointCloud2, columns_of_cloud, is_pointcloud2, stamp_of_cloud
from poli.options import real_array
from poli.se3 import check_pose


def _array_in(cloud: Any, name: str) -> Any:
    """Return the coordinates of a cloud of another library, which is recognized by its attributes and never imported.

    They share memory if possible. The caller checks that the shape is (N, 3)."""
    if isinstance(cloud, np.ndarray | list | tuple):
        return cloud
    try:
        if hasattr(cloud, "detach"):
            return cloud.detach().cpu().numpy()
        if hasattr(cloud, "point") and "positions" in cloud.point:
            return cloud.point["positions"].cpu().numpy()
        for attribute in ("points", "vertices"):
            if hasattr(cloud, attribute):
                return np.asarray(getattr(cloud, attribute))
    except (TypeError, ValueError, RuntimeError) as error:  # a type unknown to numpy, or a method instead of numbers
        raise InputError(f"{name}: this {_kind(cloud)} cannot be converted to an array ({str(error)[:100]})") from None
    if hasattr(cloud, "__array__"):
        return cloud
    if isinstance(cloud, str | os.PathLike):
        raise InputError(f"{name}: {os.fspath(cloud)!r} is a path; read it with poli.read")
    raise InputError(
        f"{name} is a {_kind(cloud)}; expected a Scan, an (N, 3) array, a torch tensor, a PointCloud2 message, or a cloud with "
        "`points` (Open3D, PyVista) or `vertices` (trimesh)"
    )


def _kind(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}".removeprefix("builtins.")


_FLOAT32_REACH = 8192.0  # meters; beyond it, float32 resolution is coarser than a millimeter


@dataclass(frozen=True)
class Dropped:
    """How many returns were removed, and why."""

    nonfinite: int = 0
    zero: int = 0

    def __add__(self, other: Dropped) -> Dropped:
        return Dropped(self.nonfinite + other.nonfinite, self.zero + other.zero)

    @property
    def total(self) -> int:
        """The number of removed returns."""
        return self.nonfinite + self.zero


@dataclass(frozen=True, eq=False)
class Scan:
    """Points in the sensor frame with per-point fields (time, ring, intensity, ...).

    Points keep their precision, float32 or float64. A scan can be passed wherever an (N, 3) array is accepted; `Scan.of` lists the
    other accepted types.
    """

    points: np.ndarray  # (N, 3)
    fields: Mapping[str, np.ndarray] = field(default_factory=dict)  # each (N,) or (N, c)
    stamp: int | None = None  # nanoseconds
    dropped: Dropped = Dropped()

    def __post_init__(self) -> None:
        points = self.points if isinstance(self.points, np.ndarray) else real_array(self.points, "points")
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"points have shape {points.shape}; expected (N, 3)")
        if points.dtype.kind not in "fiu":
            raise InputError(f"points have type {points.dtype}; expected real numbers")
        if points.dtype not in (np.float32, np.float64):
            points = points.astype(np.float64)
        fields = {name: np.asarray(values) for name, values in self.fields.items()}
        for name, values in fields.items():
            if name in ("x", "y", "z") or not name:
                raise InputError(f"a field cannot be called {name!r}; x, y and z are the points themselves")
            sized = values.ndim in (1, 2) and len(values) == len(points) and values.shape[1:] != (0,)
            if not sized or values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
                raise InputError(
                    f"field '{name}': {values.dtype} of shape {values.shape}; "
                    f"expected numbers of shape ({len(points)},) or ({len(points)}, c)"
                )
        object.__setattr__(self, "points", np.ascontiguousarray(points))
        object.__setattr__(self, "fields", fields)

    @classmethod
    def of(cls, cloud: ScanLike, name: str = "points") -> Scan:
        """Convert any supported cloud to a Scan: a Scan, an (N, 3) array, a torch tensor, a cloud or mesh of Open3D, PyVista or
        trimesh (its points or vertices), or a ROS PointCloud2 message with all fields and without invalid returns.

        For messages, `poli.read` also converts the times of the points to seconds.
        """
        if isinstance(cloud, Scan):
            return cloud
        if is_pointcloud2(cloud):
            where = f"{name}: the PointCloud2 message"
            return replace(cls.from_columns(columns_of_cloud(cloud, where), where), stamp=stamp_of_cloud(cloud)).clean()
        return cls(_array_in(cloud, name))

    @classmethod
    def from_columns(cls, columns: Mapping[str, np.ndarray], where: str) -> Scan:  # each (N,) or (N, c)
        """Build a scan from columns: x, y, z become the points, in the widest of their types; the others become fields."""
        columns = dict(columns)
        if not {*"xyz"} & {*columns}:  # some tools write capitals
            columns = {name.lower() if name in ("X", "Y", "Z") else name: values for name, values in columns.items()}
        missing = [axis for axis in "xyz" if axis not in columns]
        if missing:
            raise FormatError(f"{where}: no column '{missing[0]}'; the columns are {', '.join([*columns][:50]) or 'none'}")
        axes = [columns.pop(axis) for axis in "xyz"]
        if any(values.ndim != 1 for values in axes):
            raise FormatError(f"{where}: x, y and z must hold one number each")
        points = np.stack(axes, axis=-1)
        return cls(points, {name: np.ascontiguousarray(values) for name, values in columns.items()})

    def __len__(self) -> int:
        return len(self.points)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.points, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        names = ", ".join(self.fields) or "no fields"
        lost = f", {self.dropped.total} dropped" if self.dropped.total else ""
        return f"Scan({len(self)} points, {names}{lost})"

    def select(self, rows: np.ndarray) -> Scan:
        """Return the rows selected by a mask or index array, with their fields."""
        return replace(self, points=self.points[rows], fields={n: v[rows] for n, v in self.fields.items()})

    def keep(self, *names: str) -> Scan:
        """Return the same points with only these fields."""
        missing = [n for n in names if n not in self.fields]
        if missing:
            raise InputError(f"no field {missing[0]!r} in this scan; it has {', '.join(self.fields) or 'none'}")
        return replace(self, fields={n: self.fields[n] for n in names})

    def without(self, *names: str) -> Scan:
        """Return the same points without these fields, whether or not they exist."""
        return replace(self, fields={n: values for n, values in self.fields.items() if n not in names})

    def clean(self) -> Scan:
        """Remove non-finite points and zero returns (how sensors mark 'no return'), and count them in `dropped`."""
        x, y, z = self.points.T  # by column: numpy reduces rows of three an order of magnitude more slowly
        finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
        zero = (x == 0) & (y == 0) & (z == 0)
        good = finite & ~zero
        if good.all():
            return self
        lost = Dropped(nonfinite=int((~finite).sum()), zero=int(zero.sum()))
        return replace(self.select(good), dropped=self.dropped + lost)

    def transform(self, T_target_source: np.ndarray) -> Scan:  # (4, 4)
        """Return the scan in another frame; fields are unchanged. The points become float64 where float32 would misplace them by
        more than a millimeter (farther than 8 km from the new origin)."""
        T = check_pose(T_target_source, "T_target_source")
        moved = self.points.astype(np.float64) @ T[:3, :3].T + T[:3, 3]
        fits = np.abs(moved).max(initial=0.0) < _FLOAT32_REACH
        return replace(self, points=moved.astype(self.points.dtype) if fits else moved)


ScanLike: TypeAlias = Scan | np.ndarray | PointCloud2 | Any  # a cloud of another library: see `Scan.of`


def points_of(scan: ScanLike, name: str = "points", least: int = 1) -> np.ndarray:
    """Return the (N, 3) float64 points of any cloud that `Scan.of` accepts. Raise InputError if some are not finite."""
    points = Scan.of(scan, name).points
    if len(points) < least:
        raise InputError(f"{name} holds {len(points)} points; at least {least} are needed")
    finite = np.isfinite(points)
    if not finite.all():  # reduce by row only for the message: reductions along short rows are slow
        bad = ~finite.all(axis=1)
        raise InputError(
            f"{name}: {int(bad.sum())} of {len(points)} rows are not finite, the first is row {int(bad.argmax())}; "
            "drop them with Scan(points).clean()"
        )
    return np.ascontiguousarray(points, dtype=np.float64)
