"""The training loss: the likelihood of matched points and of a measured pose (Corollary 1), and its alternatives.

Conventions: T maps P into Q, d_i = q_i - (R p_i + t), d_i ~ N(0, 2 C_i), xi = Log(T^-1 T~) ~ N(0, Gamma). The objective is

    Phi(T^) + 1/2 log|H(T^)|,   Phi = 1/2 sum [log|2 C_i| + d_i' (2 C_i)^-1 d_i] + 1/2 [xi' Gamma^-1 xi + log|Gamma|],

    H = sum J_i' (2 C_i)^-1 J_i + J_xi' Gamma^-1 J_xi.

C is never inverted: with C = (F L)(F L)' and A = L^-1 F', log|2C| = 3 log 2 + 2 sum log L_kk and d'(2C)^-1 d = |A d|^2 / 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from poli.errors import InputError
from poli.train import tensors3
from poli.train.pose_layer import certified_pose

_LEAST_TRUST = 1e-6
_GRAZING = 0.05  # added to the squared cosine: surfaces may be seen at grazing angles, as the ground far away is

LossKind = Literal["ttqc", "ttqc-map", "tqc"]


@dataclass(frozen=True)
class LossConfig:
    """Settings of the loss.

    `ttqc`: the paper's, T^ from the matches alone (eq. 14). `ttqc-map`: T^ from matches and the chordal prior (eq. 13).
    `tqc`: the measured pose is assumed to be true (SE)."""

    kind: LossKind = "ttqc"
    rotation_sigma: float = 0.01  # Gamma = diag(rotation^2 I, translation^2 I): radians and units of the cloud
    translation_sigma: float = 0.01
    # A share of the matches may be wrong: d ~ (1 - outliers) N(0, 2C) + outliers N(0, outlier_sigma^2 I), a heavy tail.
    outliers: float = 0.0
    outlier_sigma: float = 1.0  # meters
    # Degrees of freedom of Student's t for the residuals while shapes are trained (0: as above). Near edges the nearest point is
    # often on another surface, at any distance; the majority of the matches must outweigh a few large residuals.
    tail: float = 0.0
    # Weight, while shapes are trained, of the prior that visible surfaces face the sensor: the density of the normal n of a point
    # seen along v is proportional to |n'v|. It decides where matches cannot, on poles and wires. For scans, seen from the origin.
    visibility: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(LossKind):
            raise InputError(f"loss.kind is {self.kind!r}; expected one of {', '.join(get_args(LossKind))}")
        if not (self.rotation_sigma > 0 and self.translation_sigma > 0):
            raise InputError("loss.rotation_sigma and loss.translation_sigma must be positive")
        if not (0.0 <= self.outliers < 1.0 and self.outlier_sigma > 0):
            raise InputError("loss.outliers must be in [0, 1), loss.outlier_sigma positive")
        if not min(self.visibility, self.tail) >= 0.0:
            raise InputError("loss.visibility and loss.tail must be at least 0")

    def gamma(self) -> torch.Tensor:  # (6, 6)
        """Return Gamma, the covariance of the errors of measured poses."""
        return torch.diag(torch.tensor([self.rotation_sigma] * 3 + [self.translation_sigma] * 3, dtype=torch.float64) ** 2)


@dataclass(frozen=True)
class MatchBatch:
    """Pairs of points under their measured poses, one problem per row; pairs of zero weight are ignored."""

    source: torch.Tensor  # (B, N, 3) float64, p
    target: torch.Tensor  # (B, N, 3) float64, q
    weights: torch.Tensor  # (B, N) float64, 1 for a match and 0 for none
    T_measured: torch.Tensor  # (B, 4, 4) float64, T~_target_source
    gamma: torch.Tensor | None = None  # (B, 6, 6) float64, Gamma of each problem; None: that of the configuration

    def to(self, device: torch.device) -> MatchBatch:
        """Return the batch on a device."""
        source, target, weights, T = (t.to(device) for t in (self.source, self.target, self.weights, self.T_measured))
        return MatchBatch(source, target, weights, T, None if self.gamma is None else self.gamma.to(device))


@dataclass(frozen=True)
class LossTerms:
    """Means over the certified problems, per match where noted; only `total` has a gradient."""

    total: torch.Tensor  # ()
    correspondence: float  # 1/2 [log|2C| + d'(2C)^-1 d], per match
    pose: float  # 1/2 [log|H| + xi' Gamma^-1 xi + log|Gamma|], per match
    nees: float  # mean of d'(2C)^-1 d of the matches, weighted by their probability of being correct: 3 when calibrated
    certified: float  # fraction of the problems; the others were skipped


def whitening(L: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:  # (..., 3, 3), (..., 3, 3) -> (..., 3, 3)
    """Return A = L^-1 F', with C^-1 = A' A."""
    return tensors3.inverse3(L) @ frames.transpose(-1, -2)


def pair_loss(config: LossConfig, matches: MatchBatch, L: torch.Tensor, frames: torch.Tensor) -> LossTerms:
    """Return the loss of a batch. L and frames are (B, N, 3, 3): row b has the ellipsoids of the target points of problem b."""
    if not torch.isfinite(L).all():  # the trainer detects it by the gradient, in all processes alike
        return LossTerms(math.nan * L.sum(), math.nan, math.nan, math.nan, 0.0)
    A = whitening(L.double(), frames.double())
    log_2c = 3.0 * math.log(2.0) + 2.0 * L.double().diagonal(dim1=-2, dim2=-1).log().sum(-1)  # (B, N)
    weights = matches.weights * _trust(config, matches, A, log_2c)
    information = 0.5 * weights[..., None, None] * (A.transpose(-1, -2) @ A)
    gamma = config.gamma().to(L.device) if matches.gamma is None else matches.gamma
    if config.kind == "tqc":
        T = matches.T_measured
        kept = torch.ones(len(T), dtype=torch.bool, device=T.device)
    else:
        measured = config.kind == "ttqc-map"
        poses = certified_pose(
            matches.source,
            matches.target,
            information,
            matches.T_measured if measured else None,
            gamma if measured else None,
            skip_degenerate=True,
        )
        T, kept = poses.T_target_source, poses.certified
    count = matches.weights.sum(1)
    kept = kept & (count > 0)
    if not kept.any():  # nothing to train on; a zero that depends on all parameters keeps processes in sync
        return LossTerms(0.0 * L.sum(), math.nan, math.nan, math.nan, 0.0)
    d = residuals(matches, T)
    squares = squared(A, d)
    data = (matches.weights * _unlikelihood(config, log_2c, squares, d.square().sum(-1))).sum(1)
    seen = (matches.weights * _visibility(matches, A)).sum(1) if config.visibility else 0.0
    pose = torch.zeros_like(data)
    if config.kind != "tqc":
        pose = _pose_likelihood(T, matches, information, gamma)
    each = data + pose + config.visibility * seen
    total = (each[kept] / count[kept]).mean()
    with torch.no_grad():
        data_mean, pose_mean = ((value[kept] / count[kept]).mean().item() for value in (data, pose))
        nees = ((weights * squares).sum(1)[kept] / weights.sum(1)[kept].clamp_min(1e-9)).mean().item()
    return LossTerms(total, data_mean, pose_mean, nees, kept.double().mean().item())


def _unlikelihood(
    config: LossConfig, log_2c: torch.Tensor, squares: torch.Tensor, length2: torch.Tensor
) -> torch.Tensor:  # each (..., M) -> (..., M)
    """Return the negative log-likelihood of d, given log|2C|, d'(2C)^-1 d and |d|^2, without its constant 3/2 log 2 pi."""
    if config.tail:
        return 0.5 * (log_2c + (config.tail + 3.0) * (squares / config.tail).log1p())
    gaussian = 0.5 * (log_2c + squares)
    if config.outliers:
        return -torch.logaddexp(math.log(1.0 - config.outliers) - gaussian, _outlier_log_density(config, length2))
    return gaussian


def residuals(matches: MatchBatch, T: torch.Tensor) -> torch.Tensor:  # (B, N, 3)
    """Return d = q - (R p + t) of each match."""
    return matches.target - (matches.source @ T[:, :3, :3].transpose(1, 2) + T[:, None, :3, 3])


def squared(A: torch.Tensor, d: torch.Tensor) -> torch.Tensor:  # (B, N)
    """Return d'(2C)^-1 d, with A of `whitening`."""
    return 0.5 * ((A @ d[..., None])[..., 0] ** 2).sum(-1)


def _outlier_log_density(config: LossConfig, length2: torch.Tensor) -> torch.Tensor:  # (B, N)
    """Return the log density of outliers, weighted by their share, without the constant 3/2 log 2 pi, as the other terms."""
    return math.log(config.outliers) - 3.0 * math.log(config.outlier_sigma) - 0.5 * length2 / config.outlier_sigma**2


def _visibility(matches: MatchBatch, A: torch.Tensor) -> torch.Tensor:  # (B, N)
    """Return -log |n'v|, with the squared cosine of every axis weighted by its share of the precision (the normal of a plate)."""
    view = torch.nn.functional.normalize(matches.target, dim=-1)
    cosine2 = (A @ view[..., None]).square().sum((-2, -1)) / A.square().sum((-2, -1))
    return -0.5 * (cosine2 + _GRAZING).log()


def _trust(config: LossConfig, matches: MatchBatch, A: torch.Tensor, log_2c: torch.Tensor) -> torch.Tensor | float:  # (B, N)
    """Return the probability, under the measured pose, that each match is correct, or its weight under Student's t.

    This is the E-step of EM; the certified pose is the M-step, and so depends on the plausible matches. It carries no gradient."""
    if not (config.outliers or config.tail):
        return 1.0
    with torch.no_grad():
        d = residuals(matches, matches.T_measured)
        if config.tail:
            return (config.tail + 3.0) / (config.tail + squared(A, d))
        right = math.log(1.0 - config.outliers) - 0.5 * (log_2c + squared(A, d))
        # Indoors, a measured pose that is off by centimeters makes every match improbable; the pose then depends on all alike.
        return torch.sigmoid(right - _outlier_log_density(config, d.square().sum(-1))).clamp_min(_LEAST_TRUST)


def _pose_likelihood(T: torch.Tensor, matches: MatchBatch, information: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:  # (B,)
    """Return 1/2 [log|H| + xi' Gamma^-1 xi + log|Gamma|]; H by Gauss-Newton, positive definite (eq. 11-12)."""
    gamma_inverse = torch.linalg.inv(gamma)
    xi = tensors3.log(tensors3.inverse(T) @ matches.T_measured)
    # The derivative of d by a right perturbation (w, v) of T is R (p x w) - R v, so J' W J depends on R' W R and p alone.
    R = T[:, None, :3, :3]
    W = R.transpose(-1, -2) @ information @ R
    P = tensors3.hat(matches.source)
    WP = W @ P
    # With P = hat(p), J = R [P, -I] and P' = -P.
    rotation = -(P @ WP).sum(1)
    cross = -WP.sum(1)  # rows: translation, columns: rotation
    translation = W.sum(1)
    H = torch.cat([torch.cat([rotation, cross.transpose(1, 2)], 2), torch.cat([cross, translation], 2)], 1)
    J = tensors3.left_jacobian_inverse(xi)
    H = H + J.transpose(1, 2) @ gamma_inverse @ J
    squared = (xi * (gamma_inverse @ xi[..., None])[..., 0]).sum(1)
    return 0.5 * (torch.logdet(H) + squared + torch.logdet(gamma))
