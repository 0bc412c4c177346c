"""The rivals of `python -m benchmarks objects`: two clouds with normals of one kind in, a rotation or None out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from poli.errors import DegenerateError, MissingExtra
from poli.tasks import fpfh, gnc, mutual_matches, register_by_normals
from poli.tasks.clique import maximum_clique
from poli.tasks.graph import consistency_graph

_RADIUS = 0.3  # of the features: the paper's, for clouds in the unit sphere
_NEIGHBOURS = 100  # Open3D's custom


@dataclass(frozen=True)
class Cloud:
    """Points of a surface, and normals of several kinds, all turned outward from the centroid: the rule for every contestant."""

    points: np.ndarray  # (N, 3)
    normals: Mapping[str, np.ndarray]  # by kind: (N, 3)

    @staticmethod
    def of(points: np.ndarray, normals: Mapping[str, np.ndarray]) -> Cloud:
        away = points - points.mean(axis=0)
        return Cloud(points, {k: n * np.where(np.einsum("ni,ni->n", n, away) < 0, -1.0, 1.0)[:, None] for k, n in normals.items()})


@dataclass(frozen=True)
class Contestant:
    about: str
    ways: tuple[Callable[[Cloud, Cloud], np.ndarray | None], ...]  # source, target -> (3, 3); the best one counts


def fpfh_clique(kind: str, noise: float, source: Cloud, target: Cloud) -> np.ndarray | None:
    """One-scale FPFH, mutual matches, maximum clique, GNC-TLS: the paper's pipeline."""
    features = [fpfh(cloud.points, cloud.normals[kind], _RADIUS, _NEIGHBOURS) for cloud in (source, target)]
    matches = mutual_matches(features[0], features[1])
    p, q = source.points[matches[:, 0]], target.points[matches[:, 1]]
    clique, _ = maximum_clique(consistency_graph(p, q, noise))
    if len(clique) < 3:
        return None
    try:
        return gnc(p[clique], q[clique], noise).T_target_source[:3, :3]
    except DegenerateError:
        return None


def search(kind: str, source: Cloud, target: Cloud) -> np.ndarray | None:
    """`poli.register`: three scales, cliques through every match, verification by the whole clouds."""
    try:
        found = register_by_normals(source.points, source.normals[kind], target.points, target.normals[kind])
        return found.T_target_source[:3, :3]
    except DegenerateError:
        return None


def kiss_matcher(voxel: float, source: Cloud, target: Cloud) -> np.ndarray | None:
    try:
        import kiss_matcher as kiss
    except ImportError:
        raise MissingExtra("comparing with KISS-Matcher", "bench") from None
    R = np.asarray(kiss.KISSMatcher(kiss.KISSMatcherConfig(voxel)).estimate(source.points, target.points).rotation)
    return R if np.isfinite(R).all() else None


NEIGHBOURS = (6, 8, 10, 12, 16, 24)  # of PCA
_VOXELS = (0.02, 0.03, 0.05, 0.08)  # of KISS-Matcher
_PAPER = 0.1  # noise bound of the paper's pipeline
_EXAMPLE = 0.05  # of TEASER++'s own example

# Kinds of normals: "poli", "pca6" to "pca24", and "true", the surface's own. A rival with a choice is run with each of them, and
# the one that registers most pairs counts, separately for each object and N.
CONTESTANTS: dict[str, Contestant] = {
    "POLI + FPFH": Contestant(
        "POLI's normals in the paper's pipeline (one-scale FPFH, mutual matches, maximum clique, GNC)",
        (partial(fpfh_clique, "poli", _PAPER),),
    ),
    "PCA + FPFH": Contestant(
        "PCA's normals in the same pipeline, with the k that registers most",
        tuple(partial(fpfh_clique, f"pca{k}", _PAPER) for k in NEIGHBOURS),
    ),
    "true + FPFH": Contestant(
        "the surface's own normals in the same pipeline, turned outward by the same rule: its ceiling",
        (partial(fpfh_clique, "true", _PAPER),),
    ),
    "KISS-Matcher": Contestant("KISS-Matcher alone, voxel 0.03 as in the paper", (partial(kiss_matcher, 0.03),)),
    "KISS-Matcher, best": Contestant(
        f"KISS-Matcher alone, the best voxel of {', '.join(map(str, _VOXELS))}", tuple(partial(kiss_matcher, v) for v in _VOXELS)
    ),
    "TEASER-like": Contestant(
        "PCA of 12 neighbours, FPFH, maximum clique and GNC-TLS at the noise bound of TEASER++'s example, 0.05",
        (partial(fpfh_clique, "pca12", _EXAMPLE),),
    ),
    "poli.register": Contestant("POLI's normals in our own search", (partial(search, "poli"),)),
    "PCA in search": Contestant("PCA's normals, of 12 neighbours, in our own search", (partial(search, "pca12"),)),
    "true in search": Contestant("the surface's own normals in our own search: its ceiling", (partial(search, "true"),)),
}
