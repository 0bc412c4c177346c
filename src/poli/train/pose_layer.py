"""The certified pose as a differentiable layer: `certify.solve` forward, one 6x6 implicit solve (`implicit`) backward."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import torch

from poli import certify
from poli.errors import DegenerateError, InputError, PoliError
from poli.train.implicit import adjoint, match_gradients
from poli.train.tensors3 import hat


@dataclass(frozen=True)
class PoseBatch:
    """The layer's result. Gradients flow through `T_target_source` only."""

    T_target_source: torch.Tensor  # (B, 4, 4), or (4, 4) for a single problem
    certified: torch.Tensor  # (B,) bool, or ()
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
    """Return the globally optimal pose of each problem of a batch.

    It is differentiable with respect to points, weights, and the prior's pose and covariance. Omit the leading dimension for a
    single problem. Pad problems of different size with matches of zero weight. A degenerate problem raises `DegenerateError`; with
    `skip_degenerate` it yields the identity, `certified` False and no gradient instead. `shortcut` as in `certify.solve`.
    """
    given = [a for a in (source, target, information, prior_T_target_source, prior_covariance) if a is not None]
    if not all(isinstance(a, torch.Tensor) and a.is_floating_point() for a in given):
        raise InputError("certified_pose: expected torch tensors of floating-point numbers")
    if source.ndim not in (2, 3) or target.shape != source.shape or information.shape != (*source.shape, 3):
        raise InputError(
            f"source {tuple(source.shape)}, target {tuple(target.shape)} and information {tuple(information.shape)} do not fit; "
            "expected (B, N, 3), (B, N, 3) and (B, N, 3, 3)"
        )
    if (prior_T_target_source is None) != (prior_covariance is None):
        raise InputError("a prior needs both its pose and its covariance")
    batch = source.shape[:-2]
    if prior_T_target_source is not None and prior_covariance is not None:
        shapes = tuple(prior_T_target_source.shape), tuple(prior_covariance.shape)
        if shapes[0] not in ((4, 4), (*batch, 4, 4)) or shapes[1] not in ((6, 6), (*batch, 6, 6)):
            raise InputError(f"the prior's pose {shapes[0]} and covariance {shapes[1]} do not fit a batch of shape {tuple(batch)}")
        prior_T_target_source, prior_covariance = prior_T_target_source.expand(*batch, 4, 4), prior_covariance.expand(*batch, 6, 6)
    answers: list[certify.CertifiedPose | None] = []
    options = (skip_degenerate, shortcut)
    poses = _CertifiedPose.apply(source, target, information, prior_T_target_source, prior_covariance, options, answers)
    certified = torch.tensor([a is not None and a.certified for a in answers], dtype=torch.bool, device=source.device)
    return PoseBatch(poses, certified if batch else certified[0], tuple(answers))


class _CertifiedPose(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, target, information, prior_pose, prior_covariance, options, answers):
        skip_degenerate, shortcut = options
        ctx.single = source.ndim == 2
        ctx.arrays = [_problems(a, ctx.single) for a in (source, target, information, prior_pose, prior_covariance)]
        poses = np.empty((len(ctx.arrays[0]), 4, 4))
        for i, (p, q, W, T, gamma) in enumerate(zip(*ctx.arrays, strict=False)):
            try:
                answers.append(certify.solve(p, q, W, None if T is None else certify.PosePrior(T, gamma), shortcut))
                poses[i] = answers[-1].T_target_source
            except DegenerateError as error:
                if not skip_degenerate:
                    raise DegenerateError(f"problem {i} of the batch: {error}") from None
                answers.append(None)
                poses[i] = np.eye(4)
            except PoliError as error:
                raise InputError(f"problem {i} of the batch: {error}") from None
        ctx.answers = answers
        ctx.save_for_backward(source, target, information, prior_pose, prior_covariance)
        return torch.from_numpy(poses[0] if ctx.single else poses).to(source)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_pose):
        inputs = ctx.saved_tensors  # the arrays share their memory: torch checks here that it was not modified
        wanted = ctx.needs_input_grad[: len(inputs)]
        grads: list[list[Any]] = []  # per problem, one gradient per input
        for answer, by_pose, p, q, W, T_prior, gamma in zip(
            ctx.answers, _problems(grad_pose, ctx.single), *ctx.arrays, strict=False
        ):
            if answer is None:
                grads.append([None if a is None else np.zeros_like(a) for a in (p, q, W, T_prior, gamma)])
                continue
            T, frame = answer.T_target_source, answer.frame
            u = adjoint(T, frame, answer.hessian, by_pose)
            matches = match_gradients(p, q, W, T, frame, u) if any(wanted[:3]) else [None] * 3
            prior = _prior_gradients(T, np.linalg.solve(frame.tangent(), u), T_prior, gamma) if any(wanted[3:]) else [None] * 2
            grads.append([*matches, *prior])
        out: list[torch.Tensor | None] = [None] * 7  # one for each argument of forward
        for i in [i for i, needed in enumerate(wanted) if needed]:
            values = [g[i] for g in grads]
            stacked = values[0] if ctx.single else np.stack(values) if values else np.zeros(tuple(inputs[i].shape))
            out[i] = torch.from_numpy(stacked).to(inputs[i])
        return tuple(out)


def _problems(tensor: torch.Tensor | None, single: bool) -> Any:
    """Return one float64 array per problem, or None for each if there is no tensor."""
    if tensor is None:
        return repeat(None)
    array = tensor.detach().to("cpu", torch.float64).numpy()
    return array[None] if single else array


def _prior_gradients(T: np.ndarray, u: np.ndarray, T_prior: np.ndarray, covariance: np.ndarray) -> list[np.ndarray]:
    """Return the gradients of u' F by the prior's pose (4, 4) and covariance (6, 6); F is small, so torch differentiates it."""
    with torch.enable_grad():
        pose, gamma = (torch.from_numpy(a).clone().requires_grad_() for a in (T_prior, covariance))
        stationarity = chordal_gradient(torch.from_numpy(T), pose, torch.linalg.inv(gamma))
        by_pose, by_gamma = torch.autograd.grad(torch.from_numpy(u) @ stationarity, (pose, gamma))
    return [by_pose.numpy(), 0.5 * (by_gamma + by_gamma.T).numpy()]


def chordal_gradient(T: torch.Tensor, T_prior: torch.Tensor, information: torch.Tensor) -> torch.Tensor:
    """Gradient of half the chordal prior (`certify.quadratic`) by a right perturbation of T: (4, 4), (4, 4), (6, 6) -> (6,)."""
    R, t, R_prior, t_prior = T[:3, :3], T[:3, 3], T_prior[:3, :3], T_prior[:3, 3]
    A, B, C = information[:3, :3], information[:3, 3:], information[3:, 3:]
    K = 0.5 * torch.trace(A) * torch.eye(3, dtype=T.dtype, device=T.device) - A
    relative = R_prior.T @ R
    sine, shift = -_vee(relative), R_prior.T @ (t_prior - t)
    # Half the prior is -tr(K R~'R) + s' B u + u' C u / 2 + const; s moves by -vee(R~'R hat(w)), u by -R~'R v.
    by_sine, by_shift = B @ shift, B.T @ sine + C @ shift
    by_relative = -K - 0.5 * hat(by_sine)  # the gradient by R~'R, as a matrix
    return torch.cat([2.0 * _vee(relative.T @ by_relative), -relative.T @ by_shift])


def _vee(m: torch.Tensor) -> torch.Tensor:  # (3, 3) -> (3,), of the antisymmetric part
    return 0.5 * torch.stack([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])
