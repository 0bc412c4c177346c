"""Covariances of neighbors: by Open3D and small_gicp, and with weights that fall with the distance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import MissingExtra, PoliError
from poli.kdtree.tree import KDTree
from poli.scan import ScanLike
from poli.threads import thread_count

NEIGHBORS = 24
# Of the inverse distance. The best is 4 to 6 on sparse clouds of objects; at 8 the errors rise again.
POWERS = (1, 2, 3, 4, 5, 6, 8)

Setting = tuple[int, int]  # number of neighbors, power


def setting_name(setting: Setting) -> str:
    return "k {}, power {}".format(*setting)


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


def weighted_pca(scan: ScanLike, ks: Sequence[int], powers: Sequence[int] = POWERS) -> Iterator[tuple[Setting, Ellipsoids]]:
    """Yield PCA of the k nearest points with weights (d / d_k)^-power for every setting, the neighbors found once.

    The point itself, at distance zero, and its duplicates have the weight of the nearest other point. Of five ways to treat them
    (half that distance, leaving the point out, making it the mean, adding a tenth of d_k to every distance), this one had the
    lowest errors of normals.
    """
    index = KDTree(scan)
    ends = sorted({min(k, len(index)) for k in ks})
    distances, found = index.nearest(ends[-1])
    around = index.points[found] - index.points[:, None]
    nearest = np.where(distances > 0.0, distances, np.inf).min(axis=1, keepdims=True)
    nearest[np.isinf(nearest)] = 1.0  # all neighbors coincide: equal weights
    for power in powers:
        # Relative to the nearest distance, not d_k: the same up to a factor, and sums over fewer neighbors can be reused.
        weights = (nearest / np.maximum(distances, nearest)) ** power
        total, first, second, begin = np.zeros(len(index)), np.zeros((len(index), 3)), np.zeros((len(index), 3, 3)), 0
        for end in ends:
            some, vectors = weights[:, begin:end], around[:, begin:end]
            weighted = some[:, :, None] * vectors
            total = total + some.sum(axis=1)
            first = first + weighted.sum(axis=1)
            second = second + weighted.transpose(0, 2, 1) @ vectors
            mean = first / total[:, None]
            field = Ellipsoids.trusted(index.points, second / total[:, None, None] - mean[:, :, None] * mean[:, None, :])
            yield from (((k, power), field) for k in ks if min(k, len(index)) == end)
            begin = end
