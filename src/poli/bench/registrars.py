"""The contestants of `poli bench objects`: from two clouds to a rotation, or None where they give up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import DegenerateError, MissingExtra
from poli.estimation import estimate, pca
from poli.tasks import fpfh, gnc, mutual_matches, register_by_normals
from poli.tasks.clique import maximum_clique
from poli.tasks.graph import consistency_graph

_RADIUS = 0.3  # of the features: the paper's, for clouds in the unit sphere
_NEIGHBOURS = 100  # Open3D's custom
_NOISE = 0.1  # the paper's
_VOXEL = 0.03  # KISS-Matcher's, as in the paper


@dataclass(frozen=True)
class Cloud:
    points: np.ndarray  # (N, 3)
    normals: np.ndarray  # (N, 3), the surface's own

    def outward(self, normals: np.ndarray) -> np.ndarray:
        """Turned away from the centroid: the rule that every contestant orients by."""
        away = np.einsum("ni,ni->n", normals, self.points - self.points.mean(axis=0))
        return normals * np.where(away < 0, -1.0, 1.0)[:, None]


Registrar = Callable[[Cloud, Cloud, str, int], np.ndarray | None]


def _by_fpfh(source: Cloud, n_source: np.ndarray, target: Cloud, n_target: np.ndarray, noise: float = _NOISE) -> np.ndarray | None:
    """One-scale FPFH, mutual matches, maximum clique, GNC-TLS: the paper's pipeline."""
    a = fpfh(source.points, source.outward(n_source), _RADIUS, _NEIGHBOURS)
    b = fpfh(target.points, target.outward(n_target), _RADIUS, _NEIGHBOURS)
    matches = mutual_matches(a, b)
    p, q = source.points[matches[:, 0]], target.points[matches[:, 1]]
    clique, _ = maximum_clique(consistency_graph(p, q, noise))
    if len(clique) < 3:
        return None
    try:
        return gnc(p[clique], q[clique], noise).pose.T_target_source[:3, :3]
    except DegenerateError:
        return None


def _by_search(source: Cloud, n_source: np.ndarray, target: Cloud, n_target: np.ndarray) -> np.ndarray | None:
    try:
        normals = source.outward(n_source), target.outward(n_target)
        return register_by_normals(source.points, normals[0], target.points, normals[1]).T_target_source[:3, :3]
    except DegenerateError:
        return None


def _normals(field: Ellipsoids) -> np.ndarray:
    return field.axes[:, :, 0]


def poli_fpfh(source: Cloud, target: Cloud, model: str, k: int) -> np.ndarray | None:
    """POLI's normals in the paper's pipeline"""
    fields = [_normals(estimate(cloud.points, model)) for cloud in (source, target)]
    return _by_fpfh(source, fields[0], target, fields[1])


def pca_fpfh(source: Cloud, target: Cloud, model: str, k: int) -> np.ndarray | None:
    """PCA's normals in the same pipeline, with the k that registers most"""
    return _by_fpfh(source, _normals(pca(source.points, k=k)), target, _normals(pca(target.points, k=k)))


def teaser_like(source: Cloud, target: Cloud, model: str, k: int) -> np.ndarray | None:
    """PCA's normals of 30 neighbours, FPFH, maximum clique and GNC-TLS at noise bound 0.05, as TEASER++'s own example does"""
    fields = [_normals(pca(cloud.points, k=30)) for cloud in (source, target)]
    return _by_fpfh(source, fields[0], target, fields[1], noise=0.05)


def true_fpfh(source: Cloud, target: Cloud, model: str, k: int) -> np.ndarray | None:
    """the surface's own normals in the same pipeline: the ceiling"""
    return _by_fpfh(source, source.normals, target, target.normals)


def poli_register(source: Cloud, target: Cloud, model: str, k: int) -> np.ndarray | None:
    """poli.register: POLI's normals in our own search (three scales, cliques through every match, whole-cloud verification)"""
    fields = [_normals(estimate(cloud.points, model)) for cloud in (source, target)]
    return _by_search(source, fields[0], target, fields[1])


def pca_register(source: Cloud, target: Cloud, model: str, k: int) -> np.ndarray | None:
    """PCA's normals in our own search"""
    return _by_search(source, _normals(pca(source.points, k=k)), target, _normals(pca(target.points, k=k)))


def true_register(source: Cloud, target: Cloud, model: str, k: int) -> np.ndarray | None:
    """the surface's own normals in our own search"""
    return _by_search(source, source.normals, target, target.normals)


def kiss_matcher(source: Cloud, target: Cloud, model: str, k: int) -> np.ndarray | None:
    """KISS-Matcher 1.0 alone, voxel 0.03"""
    try:
        import kiss_matcher as kiss
    except ImportError:
        raise MissingExtra("comparing with KISS-Matcher", "bench") from None
    answer = kiss.KISSMatcher(kiss.KISSMatcherConfig(_VOXEL)).estimate(source.points, target.points)
    R = np.asarray(answer.rotation)
    return R if np.isfinite(R).all() else None


REGISTRARS: dict[str, Registrar] = {
    "POLI + FPFH": poli_fpfh,
    "PCA + FPFH": pca_fpfh,
    "true normals + FPFH": true_fpfh,
    "KISS-Matcher": kiss_matcher,
    "TEASER-like": teaser_like,
    "poli.register": poli_register,
    "PCA in poli.register": pca_register,
    "true normals in poli.register": true_register,
}
