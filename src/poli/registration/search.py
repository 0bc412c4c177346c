"""Find the pose between two clouds with normals, without an initial guess: features, cliques, and verification on all points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from poli.certify import CertifiedPose
from poli.errors import DegenerateError, InputError
from poli.kdtree.tree import KDTree
from poli.options import real_array, real_number, whole_number
from poli.registration.consistency import cliques_through, consistency_graph, maximum_clique
from poli.registration.fpfh import fpfh_of_scales, unit_normals
from poli.registration.gnc import gnc
from poli.registration.presets import ACROSS, FEATURE_RADIUS, NOISE_BOUND, SCALES, SearchConfig
from poli.registration.verdict import CloudPair, closeness, distinct, fit, refine
from poli.scan import ScanLike, points_of

_BLOCK = 1 << 22  # distances held at a time: 32 MB


def mutual_matches(
    a: np.ndarray,  # (N, D)
    b: np.ndarray,  # (M, D)
    k: int = 1,
) -> np.ndarray:  # (K, 2) rows of a and b
    """Return the pairs (i, j) where b[j] is among the `k` nearest features of a[i] and a[i] among the `k` nearest of b[j].

    Sorted by i, then j. Ties go to the lower index.
    """
    k, a, b = whole_number(k, "k", least=1), real_array(a, "a"), real_array(b, "b")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise InputError(f"a and b have shapes {a.shape} and {b.shape}; expected (N, D) and (M, D), one feature per row")
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        raise InputError("a or b has a feature that is not finite")
    # Encode a pair (i, j) as i M + j: the intersection of the two lists is then one sorted merge.
    forth = np.arange(len(a))[:, None] * len(b) + _nearest(a, b, min(k, len(b)))
    back = _nearest(b, a, min(k, len(a))) * len(b) + np.arange(len(b))[:, None]
    both = np.intersect1d(forth, back, assume_unique=True)
    return np.stack([both // max(len(b), 1), both % max(len(b), 1)], axis=1)


def _nearest(a: np.ndarray, b: np.ndarray, k: int) -> np.ndarray:  # (N, D), (M, D) -> (N, k)
    found = np.empty((len(a), k), np.int64)
    half_squares = 0.5 * np.einsum("ij,ij->i", b, b)
    rows = max(1, _BLOCK // max(len(b), 1))
    for begin in range(0, len(a), rows):
        # |a - b|^2 = |a|^2 + 2 (|b|^2 / 2 - a.b); the first term is the same for the whole row.
        distance = half_squares - a[begin : begin + rows] @ b.T
        row = np.arange(len(distance))
        for n in range(k):
            nearest = distance.argmin(axis=1)
            found[begin : begin + rows, n] = nearest
            distance[row, nearest] = np.inf
    return found


@dataclass(frozen=True, eq=False)
class Registration:
    """Result of `register`. `certified` covers the last step: no pose fits the inliers better. `overlap` and `agreement` are
    evidence that the inliers are correct matches."""

    pose: CertifiedPose  # of the inliers
    inliers: np.ndarray  # (I, 2) rows of source and target from which the pose was computed
    matches: np.ndarray  # (K, 2) rows of source and target with similar features
    clique: np.ndarray  # (n,) rows of `matches`: the largest consistent set
    clique_exact: bool  # proven to be the largest
    overlap: float  # 0..1, share of the source with the target within twice the noise bound
    agreement: float  # 0..1, share with it there and facing the same way; for scans, of the upright surfaces
    margin: float = 1.0  # 0..1, how much worse the second-best pose fits that is different: 0, equally well; 1, not at all
    probability: float | None = None  # that the pose is right; for scans only (`poli.registration.verdict`)

    @property
    def T_target_source(self) -> np.ndarray:  # (4, 4)
        """The pose."""
        return self.pose.T_target_source

    @property
    def certified(self) -> bool:
        """Whether no pose fits the inliers better."""
        return self.pose.certified


def register_by_normals(
    source_points: ScanLike,  # (N, 3)
    source_normals: np.ndarray,  # (N, 3) unit, outward
    target_points: ScanLike,  # (M, 3)
    target_normals: np.ndarray,  # (M, 3)
    *,
    feature_radius: float | None = None,
    noise_bound: float | None = None,
    search: SearchConfig | None = None,
    deciding: np.ndarray | None = None,  # (N,) bool: source points that distinguish places; all if not given
    max_tilt: float | None = None,  # degrees: poses that tip the z axis by more are not considered. None: any rotation
) -> Registration:
    """Find the pose T_target_source between two clouds of one object or place, for any rotation and translation.

    Meant for a few hundred to a few thousand points: downsample larger clouds first. Lengths are in the units of the points.
    `feature_radius` is the radius of the smallest of three features, 0.3 of the target's radius if not given. `noise_bound` is the
    maximum distance between points of the two clouds on one surface, 0.05 of the target's radius if not given. Above about 2,000
    points, the larger features use the 200 nearest neighbors and no longer reach their radius (`search.neighbors`). Features depend
    on the orientation of the normals: orient them by the same rule in both clouds, for instance outward.

    Raises `DegenerateError` if too few matches agree.
    """
    search = search or SearchConfig()
    P, Q = points_of(source_points, "source_points", least=3), points_of(target_points, "target_points", least=3)
    n_P = unit_normals(source_normals, len(P), "source_normals")
    n_Q = unit_normals(target_normals, len(Q), "target_normals")
    size = float(np.linalg.norm(Q - Q.mean(axis=0), axis=1).max())
    if size == 0.0:
        raise DegenerateError(f"target_points: all {len(Q)} points coincide; they do not determine the rotation")
    radius = FEATURE_RADIUS * size if feature_radius is None else feature_radius
    radius = real_number(radius, "feature_radius", "a positive length", above=True)
    noise = NOISE_BOUND * size if noise_bound is None else noise_bound
    noise = real_number(noise, "noise_bound", "a positive length", above=True)
    features = [surface_features(points, normals, radius, search) for points, normals in ((P, n_P), (Q, n_Q))]
    hypotheses = find_hypotheses(P, features[0], Q, features[1], noise, search)
    surfaces = CloudPair(P, n_P, Q, n_Q, KDTree(Q))
    refined = refine_poses(surfaces, promising(surfaces, hypotheses, noise, search, max_tilt), noise, search)
    return best_pose(surfaces, hypotheses, refined, noise, deciding, max_tilt)


class Hypotheses(NamedTuple):
    """Poses of consistent sets of matches."""

    poses: np.ndarray  # (H, 4, 4)
    matches: np.ndarray  # (K, 2)
    clique: np.ndarray  # (n,) rows of `matches`
    clique_exact: bool


def surface_features(points: np.ndarray, normals: np.ndarray, radius: float, search: SearchConfig) -> np.ndarray:  # -> (N, 99)
    """1. Return features of the points at three scales."""
    return fpfh_of_scales(points, normals, radius * SCALES, search.neighbors)


def find_hypotheses(
    P: np.ndarray,  # (N, 3)
    source_features: np.ndarray,  # (N, 99)
    Q: np.ndarray,  # (M, 3)
    target_features: np.ndarray,  # (M, 99)
    noise: float,
    search: SearchConfig,
) -> Hypotheses:
    """2. Return the poses of consistent sets of similar points."""
    matches = _match(source_features, target_features, search.candidates, search.matches)
    p, q = P[matches[:, 0]], Q[matches[:, 1]]

    # The poses of the maximum clique of consistent matches, and of one clique through each match.
    graph = consistency_graph(p, q, noise)
    clique, exact = maximum_clique(graph, search.clique_nodes)
    if len(clique) < 3:
        raise DegenerateError(
            f"no three of {len(matches)} matches agree within {noise:.3g}; the clouds may not overlap; pass a larger "
            "`noise_bound`, another feature radius, or better normals"
        )
    members = cliques_through(graph, search.hypotheses)
    members = np.concatenate([np.isin(np.arange(len(matches)), clique)[None], members[members.sum(axis=1) >= 3]])
    return Hypotheses(_poses(p, q, members.astype(float)), matches, clique, exact)


def promising(
    surfaces: CloudPair, hypotheses: Hypotheses, noise: float, search: SearchConfig, max_tilt: float | None = None
) -> np.ndarray:  # (h, 4, 4)
    """3. Return the hypotheses that align a sample of the points best, all different from each other."""
    poses = _upright(hypotheses.poses, max_tilt)
    scores = closeness(surfaces.thinned(search.scoring_points), poses, 2.0 * noise)
    return poses[distinct(poses, scores, surfaces.source, apart=4.0 * noise, max_poses=search.refined)]


def refine_poses(
    surfaces: CloudPair, poses: np.ndarray, noise: float, search: SearchConfig
) -> np.ndarray:  # (h, 4, 4) -> (h, 4, 4)
    """Return the poses refined by ICP on a sample of the points."""
    sketch = surfaces.thinned(search.refining_points)
    return np.stack([refine(sketch, T, 8.0 * noise) for T in poses])


def best_pose(
    surfaces: CloudPair,
    hypotheses: Hypotheses,
    refined: np.ndarray,  # (h, 4, 4)
    noise: float,
    deciding: np.ndarray | None = None,  # (N,) bool
    max_tilt: float | None = None,  # degrees
) -> Registration:
    """4. Return the refined pose that aligns the whole clouds best, from all nearest pairs without outliers, certified."""
    P, Q, reach = surfaces.source, surfaces.target, 2.0 * noise
    refined = _upright(refined, max_tilt)
    scores = np.array([fit(surfaces, T, reach, ACROSS * noise) for T in refined])
    order = distinct(refined, scores, P, apart=2.0 * reach, max_poses=len(refined))
    margin = 1.0 - scores[order[1]] / max(scores[order[0]], 1e-12) if len(order) > 1 else 1.0
    for T in refined[order]:
        T = refine(surfaces, T, 2.0 * reach)
        distance, found = surfaces.nearest(T)
        rows = np.flatnonzero(distance <= 2.0 * reach)
        result = gnc(P[rows], Q[found[rows]], noise, surfaces.information(T[:3, :3], rows, found[rows]))
        if max_tilt is None or tilt(result.T_target_source) <= max_tilt:
            break
    else:
        raise _tipped(max_tilt)
    inliers = np.stack([rows, found[rows]], axis=1)[result.inliers]
    there, agrees = surfaces.covered(result.T_target_source, reach)
    decisive = agrees if deciding is None else agrees[deciding]
    return Registration(
        result.pose, inliers, hypotheses.matches, hypotheses.clique, hypotheses.clique_exact,
        float(there.mean()), float(decisive.sum() / max(len(decisive), 1)), float(margin),
    )  # fmt: skip


def tilt(T: np.ndarray) -> np.ndarray:  # (..., 4, 4) -> (...)
    """Return the angle in degrees by which a pose tips the z axis."""
    return np.degrees(np.arccos(np.clip(T[..., 2, 2], -1.0, 1.0)))


def _upright(poses: np.ndarray, max_tilt: float | None) -> np.ndarray:  # (H, 4, 4) -> (h, 4, 4)
    if max_tilt is None:
        return poses
    kept = poses[tilt(poses) <= max_tilt]
    if not len(kept):
        raise _tipped(max_tilt)
    return kept


def _tipped(max_tilt: float | None) -> DegenerateError:
    return DegenerateError(
        f"every pose that was found tips the vertical by more than {max_tilt:g} degrees; the scans may show different "
        "places; if a sensor was tilted, pass upright=False"
    )


def _match(a: np.ndarray, b: np.ndarray, candidates: int, most: int) -> np.ndarray:  # -> (K, 2)
    matches = mutual_matches(a, b, candidates)
    if len(matches) > most:
        apart = ((a[matches[:, 0]] - b[matches[:, 1]]) ** 2).sum(axis=1)
        matches = matches[np.sort(np.argsort(apart, kind="stable")[:most])]
    if len(matches) < 3:
        raise DegenerateError(
            f"{len(matches)} pairs of points have similar features; at least 3 are needed; pass more points, a larger "
            "`feature_radius`, or more candidates"
        )
    return matches


def _poses(p: np.ndarray, q: np.ndarray, members: np.ndarray) -> np.ndarray:  # (K, 3), (K, 3), (H, K) -> (H, 4, 4)
    """Return the least-squares pose of each set of matches (Kabsch), for all sets at once. Points are centered for accuracy."""
    p_mean, q_mean = p.mean(axis=0), q.mean(axis=0)
    p, q = p - p_mean, q - q_mean
    share = members / members.sum(axis=1, keepdims=True)
    p_center, q_center = share @ p, share @ q
    products = (q[:, :, None] * p[:, None, :]).reshape(len(p), 9)
    U, _, Vt = np.linalg.svd((share @ products).reshape(-1, 3, 3) - q_center[:, :, None] * p_center[:, None, :])
    U[:, :, 2] *= np.where(np.linalg.det(U @ Vt) < 0, -1.0, 1.0)[:, None]  # rotations, not reflections
    poses = np.tile(np.eye(4), (len(members), 1, 1))
    poses[:, :3, :3] = U @ Vt
    poses[:, :3, 3] = q_center + q_mean - np.einsum("hij,hj->hi", poses[:, :3, :3], p_center + p_mean)
    return poses
