"""Clouds of other libraries, recognized by their attributes. None of these libraries is imported."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np

from poli.errors import InputError


class HasPoints(Protocol):
    """`open3d.geometry.PointCloud`, `pyvista.PolyData`."""

    @property
    def points(self) -> Any: ...


class HasVertices(Protocol):
    """`trimesh.PointCloud`, `trimesh.Trimesh`, `open3d.geometry.TriangleMesh`."""

    @property
    def vertices(self) -> Any: ...


class HasPoint(Protocol):
    """`open3d.t.geometry.PointCloud`."""

    @property
    def point(self) -> Any: ...


class Tensor(Protocol):
    """`torch.Tensor`."""

    def detach(self) -> Any: ...


def array_in(cloud: Any, name: str) -> Any:
    """Return the coordinates of a cloud, sharing memory if possible. The caller checks that the shape is (N, 3)."""
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
