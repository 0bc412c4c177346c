"""The certified pose as a differentiable layer: `poli.certify.solve` forward, one 6x6 implicit solve backward.

At the optimum the gradient of half the cost by the pose vanishes: F(T; theta) = sum J' W d + (prior) = 0 with d = q - (R p + t) and
J = R [hat(p), -I] for a right perturbation of the pose. Differentiating F gives A dT = -dF, A the exact 6x6 Hessian. So for a loss
with gradient g by the pose, u = -A^-1 g, and the gradient by any input is that of u' F with the pose held fixed. This equals the
KKT system of supplement SB, which the tests use as oracle, at a fraction of its size and with none of its bad conditioning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli import certify
from poli.errors import DegenerateError, InputError, MissingExtra, PoliError

try:
    import torch
except ImportError:
    raise MissingExtra("poli.learn", "train") from None


@dataclass(frozen=True)
class PoseBatch:
    """The layer's answer. Gradients flow through `T_target_source` only."""

    T_target_source: torch.Tensor  # (B, 4, 4)
    certified: torch.Tensor  # (B,) bool
    solutions: tuple[certify.CertifiedPose | None, ...]  # None where a degenerate problem was skipped


def certified_pose(
    source: torch.Tensor,  # (B, N, 3)
    target: torch.Tensor,  # (B, N, 3)
    information: torch.Tensor,  # (B, N, 3, 3)
    prior_T_target_source: torch.Tensor | None = None,  # (B, 4, 4)
    prior_covariance: torch.Tensor | None = None,  # (6, 6) or (B, 6, 6)
    skip_degenerate: bool = False,
) -> PoseBatch:
    """The globally optimal pose of each problem of a batch, differentiable by points, weights, and the prior's pose and covariance.

    Problems of different size are padded: a match with zero weight does not count. A degenerate problem raises
    `DegenerateError`; with `skip_degenerate` it yields the identity, `certified` False and no gradient instead. Leave the
    leading dimension away for a single problem; `T_target_source` is then still (1, 4, 4).
    """
    if source.ndim == 2:
        source, target, information = source[None], target[None], information[None]
    if source.ndim != 3 or target.shape != source.shape or information.shape != (*source.shape, 3):
        raise InputError(
            f"source {tuple(source.shape)}, target {tuple(target.shape)} and information {tuple(information.shape)} do not fit; "
            "expected (B, N, 3), (B, N, 3) and (B, N, 3, 3)"
        )
    if (prior_T_target_source is None) != (prior_covariance is None):
        raise InputError("a prior needs both its pose and its covariance")
    if prior_T_target_source is not None and prior_covariance is not None:
        batch = source.shape[0]
        prior_T_target_source = prior_T_target_source.expand(batch, 4, 4)
        prior_covariance = prior_covariance.expand(batch, 6, 6)
    answers: list[certify.CertifiedPose | None] = []
    poses = _CertifiedPose.apply(source, target, information, prior_T_target_source, prior_covariance, skip_degenerate, answers)
    certified = torch.tensor([a is not None and a.certified for a in answers], device=source.device)
    return PoseBatch(poses, certified, tuple(answers))


class _CertifiedPose(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, target, information, prior_pose, prior_covariance, skip_degenerate, answers):  # type: ignore[override]
        poses = np.tile(np.eye(4), (len(source), 1, 1))
        arrays = [_numpy(a) for a in (source, target, information)]
        # Weights from products like L^-T L^-1 are symmetric to their own precision; the cost sees the symmetric part only.
        arrays[2] = 0.5 * (arrays[2] + arrays[2].swapaxes(-1, -2))
        for i in range(len(source)):
            prior = None if prior_pose is None else certify.PosePrior(_numpy(prior_pose[i]), _numpy(prior_covariance[i]))
            try:
                answers.append(certify.solve(*(a[i] for a in arrays), prior=prior))
                poses[i] = answers[-1].T_target_source
            except DegenerateError as error:
                if not skip_degenerate:
                    raise DegenerateError(f"problem {i} of the batch: {error}") from None
                answers.append(None)
            except PoliError as error:
                raise InputError(f"problem {i} of the batch: {error}") from None
        ctx.answers = answers
        ctx.save_for_backward(source, target, information, prior_pose, prior_covariance)
        return torch.from_numpy(poses).to(source)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_pose):  # type: ignore[override]
        source, target, information, prior_pose, prior_covariance = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        inputs = (source, target, information, prior_pose, prior_covariance)
        grads = [torch.zeros_like(a) if w else None for a, w in zip(inputs, wanted, strict=False)]
        for i, answer in enumerate(ctx.answers):
            if answer is None:
                continue
            u = _adjoint(answer, _numpy(grad_pose[i]))
            matches = _match_gradients(answer, u, source[i], target[i], information[i], wanted[:3])
            for grad, value in zip(grads[:3], matches, strict=True):
                if grad is not None:
                    grad[i] = value
            if prior_pose is not None and (wanted[3] or wanted[4]):
                for grad, value in zip(grads[3:], _prior_gradients(answer, u, prior_pose[i], prior_covariance[i]), strict=True):
                    if grad is not None:
                        grad[i] = value
        return (*grads, None, None)


def _adjoint(answer: certify.CertifiedPose, grad_pose: np.ndarray) -> np.ndarray:  # (4, 4) -> (6,)
    """u = -A^-1 g in the frame centred on the source, where A is well conditioned; g is the loss's gradient by the centred pose."""
    frame, R = answer.implicit.frame, answer.T_target_source[:3, :3]
    # T moves by dR = R hat(w), dt = size R v - dR c, for a centred perturbation (w, v) and the centre c.
    pull = R.T @ (grad_pose[:3, :3] - np.outer(grad_pose[:3, 3], frame.source))
    g = np.concatenate([[pull[2, 1] - pull[1, 2], pull[0, 2] - pull[2, 0], pull[1, 0] - pull[0, 1]], frame.size * R.T @ grad_pose[:3, 3]])
    return -np.linalg.solve(answer.implicit.hessian, g)


def _match_gradients(answer, u, source, target, information, wanted):
    """Gradients of u' F by p, q and W, where F = sum J' W d, in coordinates about the centre of the source."""
    frame = answer.implicit.frame
    like = {"dtype": torch.float64, "device": source.device}
    T = torch.as_tensor(answer.T_target_source, **like)
    R, centre = T[:3, :3], torch.as_tensor(frame.source, **like)
    u_rotation, u_shift = torch.as_tensor(u[:3], **like), torch.as_tensor(u[3:] * frame.size, **like)
    p = source.to(torch.float64) - centre
    # d in centred coordinates: subtracting first keeps the digits where the origin is far away.
    d = (target.to(torch.float64) - (T[:3, 3] + R @ centre)) - p @ R.T
    W = information.to(torch.float64)
    W = 0.5 * (W + W.transpose(-1, -2))
    Ju = -(torch.linalg.cross(u_rotation.expand_as(p), p) + u_shift) @ R.T  # J u = -R (u_r x p + u_t)
    grad_p = grad_q = grad_W = None
    if wanted[0] or wanted[1]:
        grad_q = torch.einsum("nij,nj->ni", W, Ju)
        pulled = torch.einsum("nij,nj->ni", W, d) @ R  # R' W d
        grad_p = torch.linalg.cross(u_rotation.expand_as(p), pulled) - grad_q @ R
    if wanted[2]:
        outer = Ju[:, :, None] * d[:, None, :]
        grad_W = 0.5 * (outer + outer.transpose(-1, -2))
    return tuple(None if g is None else g.to(source.dtype) for g in (grad_p, grad_q, grad_W))


def _prior_gradients(answer, u, prior_pose, prior_covariance):
    """Gradients of u' F by the prior's pose and covariance; F is small here, so torch differentiates it."""
    frame = answer.implicit.frame
    like = {"dtype": torch.float64, "device": prior_pose.device}
    T = torch.as_tensor(answer.T_target_source, **like)
    # u is centred; the prior speaks of the pose itself.
    full = np.linalg.solve(frame.tangent(), u)
    with torch.enable_grad():
        pose = prior_pose.detach().to(torch.float64).requires_grad_()
        covariance = prior_covariance.detach().to(torch.float64).requires_grad_()
        stationarity = chordal_gradient(T, pose, torch.linalg.inv(covariance))
        grads = torch.autograd.grad(torch.as_tensor(full, **like) @ stationarity, (pose, covariance))
    symmetric = 0.5 * (grads[1] + grads[1].transpose(-1, -2))
    return grads[0].to(prior_pose.dtype), symmetric.to(prior_covariance.dtype)


def chordal_gradient(T: torch.Tensor, T_prior: torch.Tensor, information: torch.Tensor) -> torch.Tensor:
    """Gradient of half the chordal prior (`certify.prior`) by a right perturbation of T: (4, 4), (4, 4), (6, 6) -> (6,)."""
    R, t, R_prior, t_prior = T[:3, :3], T[:3, 3], T_prior[:3, :3], T_prior[:3, 3]
    A, B, C = information[:3, :3], information[:3, 3:], information[3:, 3:]
    K = 0.5 * torch.trace(A) * torch.eye(3, dtype=T.dtype, device=T.device) - A
    relative = R_prior.T @ R
    sine, shift = -_vee(relative), R_prior.T @ (t_prior - t)
    # Half the prior is -tr(K R~'R) + s' B u + u' C u / 2 + const; s moves by -vee(R~'R hat(w)), u by -R~'R v.
    by_sine, by_shift = B @ shift, B.T @ sine + C @ shift
    by_relative = -K - 0.5 * _hat(by_sine)  # the gradient by R~'R, as a matrix
    return torch.cat([2.0 * _vee(relative.T @ by_relative), -relative.T @ by_shift])


def _vee(m: torch.Tensor) -> torch.Tensor:  # (3, 3) -> (3,), of the antisymmetric part
    return 0.5 * torch.stack([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])


def _hat(v: torch.Tensor) -> torch.Tensor:  # (3,) -> (3, 3)
    o = torch.zeros_like(v[0])
    return torch.stack([torch.stack([o, -v[2], v[1]]), torch.stack([v[2], o, -v[0]]), torch.stack([-v[1], v[0], o])])


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()
