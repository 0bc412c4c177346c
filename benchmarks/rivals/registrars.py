"""Rivals in registration. For objects: from clouds with normals to a rotation; for scans: from two scans to a pose; or None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.rivals.teaser import Teaser, teaser
from poli.errors import DegenerateError, MissingExtra
from poli.estimation import pca
from poli.registration import fpfh, gnc, mutual_matches, register, register_by_normals
from poli.registration.consistency import consistency_graph, maximum_clique
from poli.voxels import voxel_downsample

_FEATURE_NEIGHBORS = 100  # as in Open3D's examples


Matched = Callable[[np.ndarray, np.ndarray, float], np.ndarray | None]  # matches (M, 3), (M, 3) and a noise bound -> (4, 4)


def clique_pose(p: np.ndarray, q: np.ndarray, noise: float) -> np.ndarray | None:  # (M, 3), (M, 3) -> (4, 4)
    """Pose from matches by maximum clique and GNC-TLS."""
    clique, _ = maximum_clique(consistency_graph(p, q, noise))
    if len(clique) < 3:
        return None
    try:
        return gnc(p[clique], q[clique], noise).T_target_source
    except DegenerateError:
        return None


def teaser_pose(p: np.ndarray, q: np.ndarray, noise: float) -> np.ndarray | None:  # (M, 3), (M, 3) -> (4, 4)
    return teaser(p, q, Teaser(noise))


def kiss_pose(voxel: float, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:  # (N, 3), (M, 3) -> (4, 4)
    try:
        import kiss_matcher as kiss
    except ImportError:
        raise MissingExtra("comparing with KISS-Matcher", "bench") from None
    found = kiss.KISSMatcher(kiss.KISSMatcherConfig(voxel)).estimate(source, target)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = found.rotation, np.ravel(found.translation)
    return T if np.isfinite(T).all() else None


# --- objects

_RADIUS = 0.3  # feature radius of the paper, for clouds in the unit sphere


@dataclass(frozen=True)
class Cloud:
    """Points of a surface, and several kinds of normals, all oriented away from the centroid, the same for every contestant."""

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


def by_fpfh(kind: str, noise: float, solve: Matched, source: Cloud, target: Cloud) -> np.ndarray | None:
    """The paper's pipeline: single-scale FPFH, mutual matches, and a solver; maximum clique and GNC-TLS, or TEASER++."""
    features = [fpfh(cloud.points, cloud.normals[kind], _RADIUS, _FEATURE_NEIGHBORS) for cloud in (source, target)]
    matches = mutual_matches(features[0], features[1])
    T = solve(source.points[matches[:, 0]], target.points[matches[:, 1]], noise)
    return None if T is None else T[:3, :3]


def search(kind: str, source: Cloud, target: Cloud) -> np.ndarray | None:
    """`poli.register`: three scales, a clique through each match, verification on the full clouds."""
    try:
        found = register_by_normals(source.points, source.normals[kind], target.points, target.normals[kind])
        return found.T_target_source[:3, :3]
    except DegenerateError:
        return None


def kiss_matcher(voxel: float, source: Cloud, target: Cloud) -> np.ndarray | None:
    T = kiss_pose(voxel, source.points, target.points)
    return None if T is None else T[:3, :3]


def rpm_net(kind: str, source: Cloud, target: Cloud) -> np.ndarray:
    """Clouds in the unit sphere, as in training."""
    from benchmarks.rivals.rpm_net import rpm_net_pose  # torch, which registration of scans does without

    return rpm_net_pose((source.points, source.normals[kind]), (target.points, target.normals[kind]))[:3, :3]


NEIGHBORS = (6, 8, 10, 12, 16, 24)  # of PCA
_VOXELS = (0.02, 0.03, 0.05, 0.08)  # of KISS-Matcher
_PAPER = 0.1  # noise bound of the paper's pipeline
_EXAMPLE = 0.05  # as in TEASER++'s example


def with_fpfh(kind: str) -> Contestant:
    """The paper's pipeline with normals of this kind."""
    return Contestant(f"normals of {kind} in the paper's pipeline", (partial(by_fpfh, kind, _PAPER, clique_pose),))


# Kinds of normals: "POLI" (and the names of other models), "pca6" to "pca24", and "true" (of the surface). A rival with several
# settings is run with each, and the one that registers the most pairs counts, separately for each object and N.
CONTESTANTS: dict[str, Contestant] = {
    "POLI + FPFH": Contestant(
        "POLI normals in the paper's pipeline (single-scale FPFH, mutual matches, maximum clique, GNC)",
        (partial(by_fpfh, "POLI", _PAPER, clique_pose),),
    ),
    "PCA + FPFH": Contestant(
        "PCA normals in the same pipeline, with the best k",
        tuple(partial(by_fpfh, f"pca{k}", _PAPER, clique_pose) for k in NEIGHBORS),
    ),
    "true + FPFH": Contestant(
        "true normals in the same pipeline, with the same orientation: its upper bound",
        (partial(by_fpfh, "true", _PAPER, clique_pose),),
    ),
    "KISS-Matcher": Contestant("KISS-Matcher, voxel 0.03 as in the paper", (partial(kiss_matcher, 0.03),)),
    "KISS-Matcher, best": Contestant(
        f"KISS-Matcher, the best voxel of {', '.join(map(str, _VOXELS))}", tuple(partial(kiss_matcher, v) for v in _VOXELS)
    ),
    "TEASER++": Contestant(
        "TEASER++, reimplemented, with PCA normals and FPFH as above; the best k, and noise bound of 0.1 as above or 0.05 as in "
        "its example",
        tuple(partial(by_fpfh, f"pca{k}", noise, teaser_pose) for noise in (_PAPER, _EXAMPLE) for k in NEIGHBORS),
    ),
    "RPM-Net (small)": Contestant(
        "RPM-Net, reimplemented, small: PCA of 12 neighbors; trained with true poses of our procedural shapes",
        (partial(rpm_net, "pca12"),),
    ),
    "poli.register": Contestant("POLI normals in our search", (partial(search, "POLI"),)),
    "PCA in search": Contestant("PCA normals of 12 neighbors in our search", (partial(search, "pca12"),)),
    "true in search": Contestant("true normals in our search: its upper bound", (partial(search, "true"),)),
}


# --- scans

Registrar = Callable[[np.ndarray, np.ndarray], np.ndarray | None]  # (N, 3), (M, 3) -> (4, 4)

KISS_MATCHER, TEASER, TEASER_LIKE, OURS = "KISS-Matcher", "TEASER++", "TEASER-like", "poli.register"
_SOLVERS: dict[str, Matched] = {TEASER: teaser_pose, TEASER_LIKE: clique_pose}
_NEIGHBORS = 16  # of PCA normals; with fewer, or with a radius, success on raw scans of 16 rings is lower
_FARTHEST = 80.0  # meters
_MATCHES = 6000  # more are subsampled evenly, so that their graph fits into memory


def registrar(system: str, voxel: float, sensor: str) -> Registrar:
    if system == KISS_MATCHER:
        return partial(_kiss_scans, voxel)
    return partial(_by_fpfh_of_scans, voxel, _SOLVERS[system]) if system in _SOLVERS else partial(_ours, sensor)


def _kiss_scans(voxel: float, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    return kiss_pose(voxel, source.astype(np.float32), target.astype(np.float32))


def _by_fpfh_of_scans(voxel: float, solve: Matched, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """A solver on mutual matches of FPFH with a radius of five voxels, with one voxel as noise bound."""
    clouds = []
    for scan in (source, target):
        points = voxel_downsample(scan.astype(np.float64), voxel).points
        points = points[np.einsum("ni,ni->n", points, points) <= _FARTHEST**2]
        normals = pca(points, k=_NEIGHBORS).oriented_normals(np.zeros(3))
        clouds.append((points, fpfh(points, normals, 5.0 * voxel, _FEATURE_NEIGHBORS)))
    (P, source_features), (Q, target_features) = clouds
    matches = mutual_matches(source_features, target_features)
    matches = matches[np.linspace(0, len(matches) - 1, min(_MATCHES, len(matches))).astype(int)]
    return solve(P[matches[:, 0]], Q[matches[:, 1]], voxel)


def _ours(sensor: str, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    try:
        return register(source, target, preset=sensor).T_target_source
    except DegenerateError:
        return None
