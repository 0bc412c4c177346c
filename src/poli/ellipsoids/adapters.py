"""Conversions of a field to other libraries. Each library is imported on first use; the core needs none of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from poli.ellipsoids.field import Ellipsoids
from poli.ellipsoids.files import quaternions
from poli.errors import InputError, MissingExtra, PoliError
from poli.options import real_array, real_number, whole_number
from poli.threads import thread_count


def to_open3d(field: Ellipsoids) -> Any:
    with _needed("to_open3d", "adapters"):
        import open3d
    # Open3D copies the arrays, but rejects read-only ones.
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(_writeable(field.means)))
    cloud.normals = open3d.utility.Vector3dVector(field.normals)
    cloud.covariances = open3d.utility.Matrix3dVector(_writeable(field.covariances))
    return cloud


def to_small_gicp(field: Ellipsoids, neighbors: int) -> tuple[Any, Any]:
    with _needed("to_small_gicp", "adapters"):
        import small_gicp
    if not len(field):
        raise InputError("to_small_gicp: the field is empty; small_gicp needs at least one point for its tree")
    threads = thread_count()
    cloud = small_gicp.PointCloud(field.means)
    tree = small_gicp.KdTree(cloud, num_threads=threads)
    k = whole_number(neighbors, "neighbors", least=1)
    # Before this call normals and covariances are uninitialized memory, which GICP would read.
    small_gicp.estimate_normals_covariances(cloud, tree, num_neighbors=k, num_threads=threads)
    return cloud, tree


def to_torch(field: Ellipsoids, copy: bool) -> tuple[Any, Any]:
    with _needed("to_torch", "train"):
        import torch
    means, covariances = (torch.from_numpy(a.copy() if copy else _writeable(a)) for a in (field.means, field.covariances))
    return means, covariances


def to_rerun(field: Ellipsoids, sigma: float, colors: np.ndarray | None) -> Any:
    with _needed("to_rerun", "view"):
        import rerun
    sigma = real_number(sigma, "sigma", "a positive number of standard deviations", above=True)
    shades = 0.5 * (field.normals + 1.0) if colors is None else real_array(colors, "colors")
    if shades.shape != (len(field), 3) or not ((shades >= 0) & (shades <= 1)).all():
        raise InputError(f"colors have shape {shades.shape}; expected ({len(field)}, 3), all between 0 and 1")
    return rerun.Ellipsoids3D(
        centers=field.means,
        half_sizes=sigma * field.scales,
        quaternions=np.roll(quaternions(field.axes), -1, axis=1),  # x, y, z, w
        colors=np.rint(255.0 * shades).astype(np.uint8),
        fill_mode="solid",
    )


@contextmanager
def _needed(method: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError:
        raise MissingExtra(f"Ellipsoids.{method}", extra) from None
    except (ImportError, OSError) as error:  # open3d without the system libraries that it needs
        raise PoliError(f"Ellipsoids.{method}: the library is installed but could not be imported: {error}") from None


def _writeable(array: np.ndarray) -> np.ndarray:
    """Return a writable view of a read-only array, which some libraries require, or a copy if its owner is read-only, too."""
    view = array.view()
    try:
        view.flags.writeable = True
    except ValueError:
        return array.copy()
    return view
