"""Conversions of a field to other libraries. Each library is imported on first use; the core needs none of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from poli.ellipsoids.field import Field
from poli.ellipsoids.files import checked_colors, quaternions
from poli.errors import InputError, MissingExtra, PoliError
from poli.options import real_number, whole_number
from poli.threads import thread_count


class Converted(Field):
    """The part of `Ellipsoids` about other libraries."""

    def to_open3d(self) -> Any:
        """Convert to an `open3d.geometry.PointCloud` with normals (towards the viewpoint) and covariances (extra `adapters`).

        Open3D's `registration_generalized_icp` uses these covariances as they are and inverts sums of two, so thicken fields that
        may be flat first (`with_floor`, `as_planes`).
        """
        with _needed("to_open3d", "adapters"):
            import open3d
        # Open3D copies the arrays, but rejects read-only ones.
        cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(_writeable(self.means)))
        cloud.normals = open3d.utility.Vector3dVector(self.normals)
        cloud.covariances = open3d.utility.Matrix3dVector(_writeable(self.covariances))
        return cloud

    def to_small_gicp(self, neighbors: int = 20) -> tuple[Any, Any]:
        """Convert the means, not the covariances, to a `small_gicp.PointCloud` and its `KdTree` for `small_gicp.align`.

        It needs the extra `adapters`. small_gicp 1.0.1 lets Python set neither normals nor covariances, so the cloud has its own,
        by PCA of `neighbors` points (docs/tutorial/other_systems.md). To align with those of this field, use `poli.gicp`.
        """
        with _needed("to_small_gicp", "adapters"):
            import small_gicp
        if not len(self):
            raise InputError("to_small_gicp: the field is empty; small_gicp needs at least one point for its tree")
        k, threads = whole_number(neighbors, "neighbors", least=1), thread_count()
        cloud = small_gicp.PointCloud(self.means)
        tree = small_gicp.KdTree(cloud, num_threads=threads)
        small_gicp.estimate_normals_covariances(cloud, tree, num_neighbors=k, num_threads=threads)
        return cloud, tree

    def to_torch(self, copy: bool = False) -> tuple[Any, Any]:
        """Convert means (N, 3) and covariances (N, 3, 3) to float64 tensors on the CPU (extra `train`).

        They share the field's memory, so do not write to them. With `copy=True`, or after `.float()` or `.cuda()`, they are
        independent copies.
        """
        with _needed("to_torch", "train"):
            import torch
        means, covariances = (torch.from_numpy(a.copy() if copy else _writeable(a)) for a in (self.means, self.covariances))
        return means, covariances

    def to_rerun(self, sigma: float = 1.0, colors: np.ndarray | None = None) -> Any:
        """Convert to a `rerun.Ellipsoids3D` to log (extra `view`): `rr.log("field", field.to_rerun(sigma=2.0))`.

        Solid ellipsoids of `sigma` standard deviations; rerun stores float32. `colors` (N, 3) in 0..1; by default they show the
        normals, as in `write_splat`.
        """
        with _needed("to_rerun", "view"):
            import rerun
        return rerun.Ellipsoids3D(
            centers=self.means,
            half_sizes=real_number(sigma, "sigma", "a positive number of standard deviations", above=True) * self.scales,
            quaternions=np.roll(quaternions(self.axes), -1, axis=1),  # x, y, z, w
            colors=np.rint(255.0 * checked_colors(colors, self.normals)).astype(np.uint8),
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
