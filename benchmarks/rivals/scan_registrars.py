"""The contestants of `python -m benchmarks registration`: two scans in, a pose out, or None."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from poli.errors import DegenerateError, MissingExtra
from poli.estimation import pca
from poli.tasks import fpfh, gnc, mutual_matches, register_scans
from poli.tasks.clique import maximum_clique
from poli.tasks.graph import consistency_graph
from poli.voxels import voxel_downsample

Registrar = Callable[[np.ndarray, np.ndarray], np.ndarray | None]  # (N, 3), (M, 3) -> (4, 4)

KISS_MATCHER, TEASER, OURS = "KISS-Matcher", "TEASER-like", "poli.register"
_NEIGHBOURS = 16  # of PCA's normals; fewer or a radius cost raw scans of 16 rings some success
_FARTHEST = 80.0  # metres
_MATCHES = 6000  # more are thinned evenly, for the graph of them to fit into memory


def registrar(system: str, voxel: float, sensor: str) -> Registrar:
    if system == KISS_MATCHER:
        return partial(_kiss_matcher, voxel)
    return partial(_teaser_like, voxel) if system == TEASER else partial(_ours, sensor)


def _kiss_matcher(voxel: float, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    try:
        import kiss_matcher as kiss
    except ImportError:
        raise MissingExtra("comparing with KISS-Matcher", "bench") from None
    found = kiss.KISSMatcher(kiss.KISSMatcherConfig(voxel)).estimate(source.astype(np.float32), target.astype(np.float32))
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = found.rotation, np.ravel(found.translation)
    return T if np.isfinite(T).all() else None


def _teaser_like(voxel: float, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """FPFH of five voxels' radius, mutual matches, maximum clique, GNC-TLS: what TEASER++ does behind Open3D's features."""
    clouds = []
    for scan in (source, target):
        points = voxel_downsample(scan.astype(np.float64), voxel).points
        points = points[np.einsum("ni,ni->n", points, points) <= _FARTHEST**2]
        normals = pca(points, k=_NEIGHBOURS).oriented_normals(np.zeros(3))
        clouds.append((points, fpfh(points, normals, 5.0 * voxel, 100)))
    (P, source_features), (Q, target_features) = clouds
    matches = mutual_matches(source_features, target_features)
    matches = matches[np.linspace(0, len(matches) - 1, min(_MATCHES, len(matches))).astype(int)]
    p, q = P[matches[:, 0]], Q[matches[:, 1]]
    clique, _ = maximum_clique(consistency_graph(p, q, voxel))
    if len(clique) < 3:
        return None
    try:
        return gnc(p[clique], q[clique], voxel).T_target_source
    except DegenerateError:
        return None


def _ours(sensor: str, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    try:
        return register_scans(source, target, sensor).T_target_source
    except DegenerateError:
        return None
