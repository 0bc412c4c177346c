"""The certified pose as a differentiable layer: `certify.solve` forward, one 6x6 implicit solve (`certify.implicit`) backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli import certify
from poli.certify.implicit import adjoint, match_gradients
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
    shortcut: bool = True,
) -> PoseBatch:
    """The globally optimal pose of each problem of a batch, differentiable by points, weights, and the prior's pose and covariance.

    Problems of different size are padded: a match with zero weight does not count. A degenerate problem raises
    `DegenerateError`; with `skip_degenerate` it yields the identity, `certified` False and no gradient instead. Leave the
    leading dimension away for a single problem; `T_target_source` is then still (1, 4, 4). `shortcut` as in `certify.solve`.
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
    poses = _CertifiedPose.apply(
        source, target, information, prior_T_target_source, prior_covariance, (skip_degenerate, shortcut), answers
    )
    certified = torch.tensor([a is not None and a.certified for a in answers], device=source.device)
    return PoseBatch(poses, certified, tuple(answers))


class _CertifiedPose(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, target, information, prior_pose, prior_covariance, options, answers):
        skip_degenerate, shortcut = options
        poses = np.tile(np.eye(4), (len(source), 1, 1))
        ctx.arrays = tuple(_numpy(a) for a in (source, target, information))
        for i in range(len(source)):
            prior = None if prior_pose is None else certify.PosePrior(_numpy(prior_pose[i]), _numpy(prior_covariance[i]))
            try:
                p, q, W = (a[i] for a in ctx.arrays)
                answers.append(certify.solve(p, q, W, prior, shortcut))
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
    def backward(ctx, grad_pose):
        inputs = ctx.saved_tensors  # source, target, information, prior_pose, prior_covariance
        wanted = ctx.needs_input_grad[: len(inputs)]
        grads = [np.zeros(tuple(a.shape)) if w else None for a, w in zip(inputs, wanted, strict=True)]
        for i, answer in enumerate(ctx.answers):
            if answer is None:
                continue
            T, frame = answer.T_target_source, answer.frame
            u = adjoint(T, frame, answer.hessian, _numpy(grad_pose[i]))
            values: list[np.ndarray | None] = [None] * len(inputs)
            if any(wanted[:3]):
                p, q, W = (a[i] for a in ctx.arrays)
                values[:3] = match_gradients(p, q, W, T, frame, u)
            if any(wanted[3:]):
                values[3:] = _prior_gradients(T, np.linalg.solve(frame.tangent(), u), inputs[3][i], inputs[4][i])
            for grad, value in zip(grads, values, strict=True):
                if grad is not None:
                    grad[i] = value
        tensors = (None if g is None else torch.from_numpy(g).to(a) for g, a in zip(grads, inputs, strict=True))
        return (*tensors, None, None)


def _prior_gradients(T: np.ndarray, u: np.ndarray, prior_pose: torch.Tensor, prior_covariance: torch.Tensor) -> list[np.ndarray]:
    """Gradients of u' F by the prior's pose (4, 4) and covariance (6, 6); F is small here, so torch differentiates it."""
    with torch.enable_grad():
        pose = prior_pose.detach().to("cpu", torch.float64).requires_grad_()
        covariance = prior_covariance.detach().to("cpu", torch.float64).requires_grad_()
        stationarity = chordal_gradient(torch.from_numpy(T), pose, torch.linalg.inv(covariance))
        by_pose, by_covariance = torch.autograd.grad(torch.from_numpy(u) @ stationarity, (pose, covariance))
    return [by_pose.numpy(), 0.5 * (by_covariance + by_covariance.T).numpy()]


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
