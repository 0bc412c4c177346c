"""`python -m benchmarks layer`: is the certified layer fast, tight and rightly differentiated? Against cvxpylayers on the same problems."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.data.pose_problems import PoseProblem, hostile_problem, random_problem
from benchmarks.report import Report, publish
from benchmarks.rivals.cvxpy_layer import CvxpyPose
from poli import certify, se3
from poli.learn.layer import certified_pose
from poli.show.figure import pyplot, save_figure

import torch  # isort: skip  (after poli.learn, which says which extra is missing)

_SIZES = (100, 1_000, 16_000, 100_000)
_GRADIENT_PROBLEMS = 60
_DIRECTIONS = 6
_STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
_TURNS = 3


@dataclass(frozen=True)
class LayerBench:
    problems: int = 1000
    repeats: int = 15
    largest: int = 100_000
    seed: int = 0


@dataclass(frozen=True)
class Timing:
    forward: float  # ms, median
    backward: float
    rotation_error: float  # largest difference to the certified rotation

    @property
    def total(self) -> float:
        return self.forward + self.backward


def run(config: LayerBench, out: Path, json_path: Path | None) -> None:
    tightness = measure_tightness(config)
    worst = measure_gradients(config)
    times = measure_times(config)
    figures = {
        "speedup_vs_cvxpylayers": _best_rival(times, 1_000) / times["poli", 1_000].total,
        "ms_1000": times["poli", 1_000].total,
        "ms_cvxpylayers_1000": _best_rival(times, 1_000),
        "ms_16000": times["poli", 16_000].total if ("poli", 16_000) in times else None,
        "worst_gradient_error": worst,
        **tightness,
        "times_ms": {f"{name} {n}": {"forward": t.forward, "backward": t.backward} for (name, n), t in times.items()},
    }
    rows = []
    for (name, n), t in times.items():
        ratio = t.total / times["poli", n].total
        rows.append(
            [str(n), name, f"{t.forward:.2f}", f"{t.backward:.2f}", f"{t.total:.2f}", f"{ratio:.1f}", f"{t.rotation_error:.0e}"]
        )
    notes = [
        f"certified: {tightness['certified_fraction']:.4f} of {config.problems} random problems (4 to 2,000 matches, weights of "
        f"condition up to 1e4, noise up to 10 sigma, any rotation); worst gap {tightness['worst_gap']:.1e}",
        f"{tightness['proven_without_sdp']:.3f} of them proven by the multipliers of least norm, without the semidefinite solver",
        f"worst gradient error against central differences: {worst:.1e} ({_GRADIENT_PROBLEMS} problems; by weights, points, and "
        "the prior's pose and covariance)",
        f"speedup over the fastest cvxpylayers variant at 1,000 matches: {figures['speedup_vs_cvxpylayers']:.1f}",
        "one problem at a time, gradients for all weights; medians; 'always SDP' is our layer with the shortcut switched off",
    ]
    command = f"python -m benchmarks layer --problems {config.problems} --repeats {config.repeats} --largest {config.largest} --seed {config.seed}"
    columns = ["matches", "layer", "forward ms", "backward ms", "total ms", "times ours", "rotation error"]
    publish(Report("Certified pose layer against cvxpylayers", command, columns, rows, notes, figures), "layer", out, json_path)
    _plot(times, out / "layer.png")


def measure_tightness(config: LayerBench) -> dict[str, float]:
    """How often the answer is proven optimal."""
    rng = np.random.default_rng(config.seed)
    answers = []
    for _ in track(range(config.problems), "certifying"):
        p = hostile_problem(rng)
        answers.append(certify.solve(p.source, p.target, p.information))
    return {
        "certified_fraction": float(np.mean([a.certified for a in answers])),
        "worst_gap": max(a.gap for a in answers),
        "proven_without_sdp": float(np.mean([np.isinf(a.certificate.eigenvalue_ratio) for a in answers])),
    }


def measure_gradients(config: LayerBench) -> float:
    """The worst relative error of directional derivatives by each input, against central differences."""
    rng = np.random.default_rng(config.seed + 1)
    return max(gradient_error(rng, with_prior=i % 2 == 1) for i in track(range(_GRADIENT_PROBLEMS), "differentiating"))


def gradient_error(rng: np.random.Generator, with_prior: bool) -> float:
    """For one random problem and loss: over the inputs, the worst of |analytic - numeric| / |numeric|, norms over directions."""
    problem = random_problem(rng, int(rng.integers(4, 40)), condition=10 ** rng.uniform(0, 4), noise=10 ** rng.uniform(-0.5, 1))
    inputs = [torch.from_numpy(a.copy()) for a in (problem.source, problem.target, problem.information)]
    if with_prior:
        # Off the truth and about as certain as the matches, so that it pulls.
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
        # Central differences err too, by truncation for long steps and by rounding for short ones: the best step counts.
        for step in _STEPS:
            numeric = np.array([float(at(i, move(step)) - at(i, move(-step))) for _, move in directions]) / (2 * step)
            errors.append(float(np.linalg.norm(analytic - numeric) / np.linalg.norm(numeric)))
        worst = max(worst, min(errors))
    return worst


def _direction(rng: np.random.Generator, index: int, value: torch.Tensor) -> tuple[torch.Tensor, Callable[[float], torch.Tensor]]:
    """A random direction that keeps the input what it is (symmetric weights, a rigid pose), and how to step along it."""
    if index == 3:
        xi, T = rng.standard_normal(6), value.numpy()
        twist = np.zeros((4, 4))
        twist[:3, :3], twist[:3, 3] = se3.hat(xi[:3]), xi[3:]
        return torch.from_numpy(T @ twist), lambda step: torch.from_numpy(T @ se3.exp(step * xi))
    direction = torch.from_numpy(rng.standard_normal(value.shape))
    if index in (2, 4):  # relative to the size of each matrix, and symmetric
        direction = direction @ value
        direction = 0.5 * (direction + direction.transpose(-1, -2))
    return direction, lambda step: value + step * direction


def measure_times(config: LayerBench) -> dict[tuple[str, int], Timing]:
    """Forward and backward, one problem at a time, every method on the same problems: in turns of a burst each, as in training."""
    methods: dict[str, Callable[..., torch.Tensor]] = {
        "poli": lambda p, q, W: certified_pose(p, q, W).T_target_source[:3, :3],
        "poli, always SDP": lambda p, q, W: certified_pose(p, q, W, shortcut=False).T_target_source[:3, :3],
    }
    for solver in ("Clarabel", "SCS"):
        for size, name in ((13, "paper's 13x13"), (10, "our 10x10")):
            methods[f"cvxpylayers {solver}, {name}"] = CvxpyPose(size, solver)  # type: ignore[arg-type]
    times = {}
    for n in [s for s in _SIZES if s <= config.largest]:
        rng = np.random.default_rng(config.seed + n)
        problems = [random_problem(rng, n, condition=1e2) for _ in range(config.repeats)]
        rotations = [certify.solve(p.source, p.target, p.information).T_target_source[:3, :3] for p in problems]
        samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in methods}
        for _ in track(range(_TURNS), f"timing {n} matches"):
            for name, method in methods.items():
                _time_once(method, problems[0], rotations[0])  # warm up
                samples[name] += [_time_once(method, p, R) for p, R in zip(problems, rotations, strict=True)]
        for name in methods:
            forward, backward, error = np.array(samples[name]).T
            times[name, n] = Timing(float(np.median(forward)), float(np.median(backward)), float(error.max()))
    return times


def _time_once(method: Callable[..., torch.Tensor], problem: PoseProblem, rotation: np.ndarray) -> tuple[float, float, float]:
    source, target = torch.from_numpy(problem.source), torch.from_numpy(problem.target)
    information = torch.from_numpy(problem.information).requires_grad_()
    start = time.perf_counter()
    R = method(source, target, information)
    middle = time.perf_counter()
    R.sum().backward()
    end = time.perf_counter()
    return 1e3 * (middle - start), 1e3 * (end - middle), float(np.abs(R.detach().numpy() - rotation).max())


def _best_rival(times: dict[tuple[str, int], Timing], n: int) -> float:
    return min(t.total for (name, size), t in times.items() if size == n and name.startswith("cvxpylayers"))


def _plot(times: dict[tuple[str, int], Timing], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name in dict.fromkeys(name for name, _ in times):
        sizes = [n for other, n in times if other == name]
        style = "-" if name.startswith("poli") else "--"
        axes.loglog(sizes, [times[name, n].total for n in sizes], style, marker="o", label=name)
    axes.set(xlabel="matches", ylabel="forward + backward (ms)", title="One problem, gradients for all weights")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncol=2)
    save_figure(figure, path)
    plt.close(figure)
