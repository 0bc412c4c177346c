"""Principal curvatures from jets: least-squares quadrics over the tangent plane of PCA (Cazals and Pouget, 2005)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from poli.kdtree.tree import KDTree

_LEAST = 1e-12  # of the trace, added to the diagonal: neighbors on a line leave the equations singular


def jets(points: np.ndarray, normals: np.ndarray, ks: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:  # (N, 3), (N, 3)
    """Yield k and principal curvatures (N, 2), the larger first, positive towards the given normals, for every number of neighbors.

    The quadric of six coefficients is fitted to the k nearest others in the axes of their PCA; its slopes enter the curvatures."""
    index = KDTree(points)
    found = index.nearest(max(ks) + 1)[1][:, 1:]
    for k in ks:
        around = points[found[:, :k]] - points[:, None]
        centered = np.concatenate([around, np.zeros((len(points), 1, 3))], axis=1)
        centered = centered - centered.mean(axis=1, keepdims=True)
        axes = np.linalg.eigh(np.swapaxes(centered, 1, 2) @ centered)[1]
        yield k, of_neighbors(around, axes, normals)


def of_neighbors(around: np.ndarray, axes: np.ndarray, normals: np.ndarray) -> np.ndarray:  # (N, k, 3), (N, 3, 3) -> (N, 2)
    h, u, v = np.moveaxis(around @ axes, 2, 0)
    phi = np.stack([np.ones_like(u), u, v, 0.5 * u * u, u * v, 0.5 * v * v], axis=2)
    equations = np.swapaxes(phi, 1, 2) @ phi
    equations += _LEAST * np.trace(equations, axis1=1, axis2=2)[:, None, None] * np.eye(6)
    beta = np.linalg.solve(equations, (phi * h[..., None]).sum(1)[..., None])[..., 0]
    slope = beta[:, 1:3]
    steep = np.sqrt(1.0 + (slope**2).sum(1))
    first = np.eye(2) + slope[:, :, None] * slope[:, None, :]
    second = beta[:, [[3, 4], [4, 5]]] / steep[:, None, None]
    bent = np.linalg.eigvals(np.linalg.solve(first, second)).real
    sign = np.where(np.einsum("ni,ni->n", axes[:, :, 0], normals) < 0.0, -1.0, 1.0)
    return np.sort(sign[:, None] * bent, axis=1)[:, ::-1]
