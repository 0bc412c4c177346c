"""The certified pose layer against cvxpylayers (Clarabel and SCS): speed, tightness and gradients.

Example: python -m benchmarks layer --json layer.json
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.data.pose_problems import PoseProblem, hostile_problem, random_problem
from benchmarks.options import option
from benchmarks.report import Plot, Report, Table, column_list
from benchmarks.rivals.cvxpy_layer import CvxpyPose
from poli import certify, se3
from poli.train.pose_layer import certified_pose

import torch  # isort: skip  (after poli.train, which reports a missing extra)

_SIZES = (100, 1_000, 16_000, 100_000)
_GRADIENT_PROBLEMS = 60
_DIRECTIONS = 6
_STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
_TURNS = 3


@dataclass(frozen=True)
class Options:
    problems: int = option(1000, "random problems for the certified fraction")
    repeats: int = option(15, "problems timed per size and method")
    largest: int = option(100_000, "largest number of matches timed")
    seed: int = option(0, "seed of the random problems")


_TABLE = Table(
    column_list(matches="{matches}", layer="{layer}"),
    column_list(
        forward_ms="{forward_ms:.2f}",
        backward_ms="{backward_ms:.2f}",
        total_ms="{total_ms:.2f}",
        times_ours="{times_ours:.1f}",
        rotation_error="{rotation_error:.0e}",
    ),
)


def run(options: Options) -> Iterator[Report]:
    tightness = measure_tightness(options)
    worst = measure_gradients(options)
    records = measure_times(options)
    total = {(r["layer"], r["matches"]): r["total_ms"] for r in records}
    rival = min(ms for (name, n), ms in total.items() if n == 1_000 and name.startswith("cvxpylayers"))
    speedup = rival / total["poli", 1_000]
    summary = {
        "speedup_vs_cvxpylayers": speedup,
        "ms_1000": total["poli", 1_000],
        "ms_cvxpylayers_1000": rival,
        "ms_16000": total.get(("poli", 16_000)),
        "worst_gradient_error": worst,
        **tightness,
    }
    notes = [
        f"certified: {tightness['certified_fraction']:.4f} of {options.problems} random problems (4 to 2,000 matches, weights of "
        f"condition up to 1e4, noise up to 10 sigma, any rotation); worst gap {tightness['worst_gap']:.1e}",
        f"{tightness['proven_without_sdp']:.3f} are proven by the multipliers of least norm, without the semidefinite solver",
        f"worst gradient error against central differences: {worst:.1e} ({_GRADIENT_PROBLEMS} problems; with respect to weights, "
        "points, and the prior's pose and covariance)",
        f"speedup over the fastest cvxpylayers variant at 1,000 matches: {speedup:.1f}",
        "one problem at a time, gradients for all weights; medians; 'always SDP' is our layer without the shortcut",
    ]
    plot = Plot(
        "matches", "total_ms", "layer", "matches", "forward + backward (ms)", kind="loglog",
        title="One problem, gradients for all weights", dashed=lambda name: not name.startswith("poli"),
    )  # fmt: skip
    yield Report("layer", "Certified pose layer against cvxpylayers", records, _TABLE, notes, summary, {"layer": plot})


def measure_tightness(options: Options) -> dict[str, float]:
    """Measure how often the solution is proven optimal."""
    rng = np.random.default_rng(options.seed)
    answers = []
    for _ in track(range(options.problems), "certifying"):
        p = hostile_problem(rng)
        answers.append(certify.solve(p.source, p.target, p.information))
    return {
        "certified_fraction": float(np.mean([a.certified for a in answers])),
        "worst_gap": max(a.gap for a in answers),
        "proven_without_sdp": float(np.mean([np.isinf(a.certificate.eigenvalue_ratio) for a in answers])),
    }


def measure_gradients(options: Options) -> float:
    """Worst relative error of directional derivatives with respect to each input, against central differences."""
    rng = np.random.default_rng(options.seed + 1)
    return max(gradient_error(rng, with_prior=i % 2 == 1) for i in track(range(_GRADIENT_PROBLEMS), "differentiating"))


def gradient_error(rng: np.random.Generator, with_prior: bool) -> float:
    """Worst |analytic - numeric| / |numeric| over the inputs of one random problem and loss; norms are over directions."""
    problem = random_problem(rng, int(rng.integers(4, 40)), condition=10 ** rng.uniform(0, 4), noise=10 ** rng.uniform(-0.5, 1))
    inputs = [torch.from_numpy(a.copy()) for a in (problem.source, problem.target, problem.information)]
    if with_prior:
        # Different from the truth and about as certain as the matches, so that it has an effect.
        prior = problem.T_target_source @ se3.exp(0.2 * rng.standard_normal(6))
        factor = 0.03 * rng.standard_normal((6, 6))
        inputs += [torch.from_numpy(prior), torch.from_numpy(factor @ factor.T + 1e-4 * np.eye(6))]
    loss_weights = torch.from_numpy(rng.standard_normal((4, 4)))

    def loss(*values: Any) -> torch.Tensor:
        return (certified_pose(*values).T_target_source * loss_weights).sum()

    def at(index: int, value: torch.Tensor) -> torch.Tensor:
        return loss(*inputs[:index], value, *inputs[index + 1 :])

    leaves = [a.clone().requires_grad_() for a in inputs]
    gradients = torch.autograd.grad(loss(*leaves), leaves)
    worst = 0.0
    for i, gradient in enumerate(gradients):
        directions = [_direction(rng, i, inputs[i]) for _ in range(_DIRECTIONS)]
        analytic = np.array([float((gradient * d).sum()) for d, _ in directions])
        errors = []
        # Central differences have errors too: truncation for long steps, rounding for short ones. Use the best step.
        for step in _STEPS:
            numeric = np.array([float(at(i, move(step)) - at(i, move(-step))) for _, move in directions]) / (2 * step)
            errors.append(float(np.linalg.norm(analytic - numeric) / np.linalg.norm(numeric)))
        worst = max(worst, min(errors))
    return worst


def _direction(rng: np.random.Generator, index: int, value: torch.Tensor) -> tuple[torch.Tensor, Callable[[float], torch.Tensor]]:
    """A random direction that keeps the input valid (symmetric weights, a rigid pose), and a function to step along it."""
    if index == 3:
        xi, T = rng.standard_normal(6), value.numpy()
        twist = np.zeros((4, 4))
        twist[:3, :3], twist[:3, 3] = se3.hat(xi[:3]), xi[3:]
        return torch.from_numpy(T @ twist), lambda step: torch.from_numpy(T @ se3.exp(step * xi))
    direction = torch.from_numpy(rng.standard_normal(value.shape))
    if index in (2, 4):  # symmetric, relative to the size of each matrix
        direction = direction @ value
        direction = 0.5 * (direction + direction.transpose(-1, -2))
    return direction, lambda step: value + step * direction


def measure_times(options: Options) -> list[dict[str, Any]]:
    """Time forward and backward passes, one problem at a time, on the same problems; methods take turns in bursts."""
    methods: dict[str, Callable[..., torch.Tensor]] = {
        "poli": lambda p, q, W: certified_pose(p, q, W).T_target_source[:3, :3],
        "poli, always SDP": lambda p, q, W: certified_pose(p, q, W, shortcut=False).T_target_source[:3, :3],
    }
    for solver in ("Clarabel", "SCS"):
        for size, name in ((13, "paper's 13x13"), (10, "our 10x10")):
            methods[f"cvxpylayers {solver}, {name}"] = CvxpyPose(size, solver)  # type: ignore[arg-type]
    records = []
    for n in [s for s in _SIZES if s <= options.largest]:
        rng = np.random.default_rng(options.seed + n)
        problems = [random_problem(rng, n, condition=1e2) for _ in range(options.repeats)]
        rotations = [certify.solve(p.source, p.target, p.information).T_target_source[:3, :3] for p in problems]
        samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in methods}
        for _ in track(range(_TURNS), f"timing {n} matches"):
            for name, method in methods.items():
                _time_once(method, problems[0], rotations[0])  # warm up
                samples[name] += [_time_once(method, p, R) for p, R in zip(problems, rotations, strict=True)]
        measured = {name: np.array(samples[name]).T for name in methods}
        medians = {name: (float(np.median(ms[0])), float(np.median(ms[1]))) for name, ms in measured.items()}
        for name, (forward, backward) in medians.items():
            times = {"forward_ms": forward, "backward_ms": backward, "total_ms": forward + backward}
            times["times_ours"] = times["total_ms"] / sum(medians["poli"])
            records.append({"matches": n, "layer": name, **times, "rotation_error": float(measured[name][2].max())})
    return records


def _time_once(method: Callable[..., torch.Tensor], problem: PoseProblem, rotation: np.ndarray) -> tuple[float, float, float]:
    source, target = torch.from_numpy(problem.source), torch.from_numpy(problem.target)
    information = torch.from_numpy(problem.information).requires_grad_()
    start = time.perf_counter()
    R = method(source, target, information)
    middle = time.perf_counter()
    R.sum().backward()
    end = time.perf_counter()
    return 1e3 * (middle - start), 1e3 * (end - middle), float(np.abs(R.detach().numpy() - rotation).max())
