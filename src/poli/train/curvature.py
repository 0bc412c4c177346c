"""Curvature: a quadric through every point, fitted to its neighbors as a Bayesian would, with variances that the network predicts.

In the frame of an ellipsoid's axes, with the normal first, the surface is a height h over the tangent plane (u, v):

    h(u, v) = phi(u, v)' beta + noise,   phi = (1, u, v, u^2 / 2, u v, v^2 / 2).

The last three coefficients are the second fundamental form. Priors: beta ~ N(0, P), P = diag(offset^2, tilt^2, tilt^2, bend^2,
bend^2 / 2, bend^2), which does not prefer a direction; a neighbor at the distance r within the plane has the variance
s^2 = noise^2 + (higher r^3)^2, because what a quadric leaves out grows with r^3. A neighbor may lie on another surface, so its
weight is that of a Student's t about the prior: w = 1 / (s^2 (1 + h^2 / (tail (s^2 + phi' P phi)))). Then

    Sigma = (P^-1 + sum w phi phi')^-1,   beta = Sigma sum w h phi.

The network predicts the seven numbers (noise, higher, offset, tilt, bend, tail, rest) of each point. They are learned from the
same pairs: a point of the partner at (u, v) has the height N(phi' beta, rest^2 + (higher r^3)^2 + phi' Sigma phi). Lengths are in
radii of the point's group.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from poli.estimation.architecture import (
    QUADRIC_DEFAULTS,
    QUADRIC_EXPONENT,
    QUADRIC_REACH,
    QUADRIC_TERMS,
    RESIDUAL_CENTER,
    RESIDUAL_FLOOR,
    RESIDUAL_RIDGE,
)

_STEEPEST = 1e-12  # squared radii: neighbors straight above a point have no direction within the plane
_OUTLIERS = 0.1  # share of the partner's points that lie on another surface


class Quadric(NamedTuple):
    """The fitted surfaces of N points."""

    coefficients: torch.Tensor  # (N, 6) beta
    covariance: torch.Tensor  # (N, 6, 6) Sigma
    higher: torch.Tensor  # (N,)
    rest: torch.Tensor  # (N,)


def fit(predicted: torch.Tensor, local: torch.Tensor) -> Quadric:  # (N, 7), (N, k, 3)
    """Fit quadrics to neighbors, given in the frame of the axes (normal first). `predicted` is the output of the network."""
    noise, higher, offset, tilt, bend, tail, rest = _positive(predicted.double()).unbind(1)
    local = local.double()
    phi, h, r2 = _terms(local)
    prior = torch.stack([offset**2, tilt**2, tilt**2, bend**2, 0.5 * bend**2, bend**2], dim=1)  # (N, 6)
    s2 = noise[:, None] ** 2 + higher[:, None] ** 2 * r2**3
    expected = s2 + (phi**2 * prior[:, None]).sum(2)
    weights = 1.0 / (s2 * (1.0 + h**2 / (tail[:, None] * expected)))
    weights = torch.where(r2 < QUADRIC_REACH**2, weights, 0.0)
    weighed = phi * weights[..., None]
    information = weighed.transpose(1, 2) @ phi + torch.diag_embed(1.0 / prior)
    covariance = torch.linalg.inv(information)
    beta = (covariance @ (weighed * h[..., None]).sum(1)[..., None])[..., 0]
    return Quadric(beta, covariance, higher, rest)


def chords(local: torch.Tensor) -> torch.Tensor:  # (N, k, 3) -> (N, k, 3)
    """Lengthen (u, v) to the distance in space, keeping its direction.

    On a ball h = |chord|^2 / (2 r) holds at any distance, whereas h(u, v) has terms of higher order, which bias its curvature."""
    h, u, v = local.unbind(2)
    r2 = u * u + v * v
    longer = (1.0 + h * h / r2.clamp_min(_STEEPEST)).sqrt()
    return torch.stack([h, u * longer, v * longer], dim=2)


def residuals(local: torch.Tensor, group: int) -> torch.Tensor:  # (N, k, 3) -> (N, 4)
    """Return the logarithms of root mean square residuals: of a plane and a quadric fitted to the group, and to all neighbors.

    Noise leaves as much at either scale, roughness more at the larger one."""
    phi, h, r2 = _terms(local.double())
    weights = (r2 < QUADRIC_REACH**2).to(phi)
    found = []
    for size in (group, local.shape[1]):
        weighed = phi[:, :size] * weights[:, :size, None]
        count = weights[:, :size].sum(1)
        ridge = torch.diag_embed((RESIDUAL_RIDGE * count).clamp_min(RESIDUAL_RIDGE)[:, None].expand(-1, QUADRIC_TERMS))
        factor = torch.linalg.cholesky(weighed.transpose(1, 2) @ phi[:, :size] + ridge)
        right = (weighed * h[:, :size, None]).sum(1)
        explained = torch.linalg.solve_triangular(factor, right[..., None], upper=False)[..., 0].square()
        total = (weights * h**2)[:, :size].sum(1)
        for terms in (3, QUADRIC_TERMS):  # the first three are those of a plane
            left = (total - explained[:, :terms].sum(1)).clamp_min(0.0) / (count - terms).clamp_min(1.0)
            found.append(0.5 * (left + RESIDUAL_FLOOR**2).log() + RESIDUAL_CENTER)
    return torch.stack(found, dim=1).to(local)


def negative_log_likelihood(quadric: Quadric, partner: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of points of the partner, (N, m, 3) as above; those of zero weight in `seen` (N, m) are ignored."""
    phi, h, r2 = _terms(partner.double())
    mean = (phi * quadric.coefficients[:, None]).sum(2)
    variance = quadric.rest[:, None] ** 2 + quadric.higher[:, None] ** 2 * r2**3 + ((phi @ quadric.covariance) * phi).sum(2)
    right = -0.5 * ((h - mean) ** 2 / variance + variance.log())
    wrong = -0.5 * (h**2 / (1.0 + r2) + (1.0 + r2).log())
    mixed = torch.logaddexp(right + math.log1p(-_OUTLIERS), wrong + math.log(_OUTLIERS))
    return -(seen * mixed).sum() / seen.sum().clamp_min(1.0)


def _positive(predicted: torch.Tensor) -> torch.Tensor:
    return predicted.clamp(-QUADRIC_EXPONENT, QUADRIC_EXPONENT).exp() * predicted.new_tensor(QUADRIC_DEFAULTS)


def _terms(local: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # (N, k, 6), (N, k), (N, k)
    """Return phi, the height, and the squared distance within the plane."""
    h, u, v = local.unbind(2)
    phi = torch.stack([torch.ones_like(u), u, v, 0.5 * u * u, u * v, 0.5 * v * v], dim=2)
    assert phi.shape[2] == QUADRIC_TERMS
    return phi, h, u * u + v * v
