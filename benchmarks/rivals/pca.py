"""Covariances of neighbors by Open3D and small_gicp."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from poli.errors import MissingExtra, PoliError
from poli.threads import thread_count

NEIGHBORS = 24


def pca_rivals(points: np.ndarray) -> dict[str, Callable[[], object]]:  # (N, 3)
    try:
        import open3d
        import small_gicp
    except ModuleNotFoundError:
        raise MissingExtra("comparing with Open3D and small_gicp", "bench") from None
    except (ImportError, OSError) as error:
        raise PoliError(f"open3d is installed but does not load: {error}; it needs system libraries, see the README") from None
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))
    other = small_gicp.PointCloud(points)

    def by_open3d() -> None:
        cloud.covariances = open3d.utility.Matrix3dVector()  # otherwise existing ones are reused
        cloud.estimate_covariances(open3d.geometry.KDTreeSearchParamKNN(NEIGHBORS))

    def by_small_gicp() -> None:
        small_gicp.estimate_covariances(other, num_neighbors=NEIGHBORS, num_threads=thread_count())

    return {"open3d": by_open3d, "small_gicp": by_small_gicp}
