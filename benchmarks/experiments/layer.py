"""The certified pose layer against the paper's form and cvxpylayers (Clarabel and SCS): speed, tightness and gradients.

Example: python -m benchmarks layer --json layer.json
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.data.pose_problems import KINDS, PoseProblem, few_matches_problem, hostile_problem, random_problem
from benchmarks.options import option
from benchmarks.provenance import versions
from benchmarks.report import Column, Plot, Report, Table, column_list
from benchmarks.rivals import paper_solver
from benchmarks.rivals.cvxpy_layer import CvxpyPose
from benchmarks.rivals.paper_solver import PaperPose
from poli import certify, se3
from poli.threads import use_one_thread
from poli.train.pose_layer import certified_pose

import torch  # isort: skip  (after poli.train, which reports a missing extra)

_SIZES = (100, 1_000, 16_000, 100_000)
_GRADIENT_PROBLEMS = 60
_DIRECTIONS = 6
_STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
_TURNS = 3
FORMS = {
    "Clarabel to 1e-12, then Newton on the KKT conditions": PaperPose(tolerance=1e-12, refined=True),
    "Clarabel to 1e-8": PaperPose(),
    "Clarabel to 1e-8, points not centered": PaperPose(centered=False),
}


@dataclass(frozen=True)
class Options:
    problems: int = option(1000, "random problems for the certified fraction")
    repeats: int = option(15, "problems timed per size and method")
    largest: int = option(100_000, "largest number of matches timed")
    compared: int = option(500, "problems compared with the paper's form", least=len(KINDS))
    seed: int = option(0, "seed of the random problems")


_TABLE = Table(
    column_list(matches="{matches}", layer="{layer}"),
    column_list(
        forward_ms="{forward_ms:.2f}",
        backward_ms="{backward_ms:.2f}",
        total_ms="{total_ms:.2f}",
        times_ours="{times_ours:.1f}",
        rotation_error="{rotation_error:.0e}",
        gradient_error="{gradient_error:.0e}",
    ),
)
_COMPARED = Table(
    [Column("problems", "{kind}"), Column("the paper's form, solved by", "{form}")],
    [
        Column("tight", "{tight} of {count}"),
        *(
            Column(name, f"{{median_{name}:.0e}} / {{worst_{name}:.0e}}")
            for name in ("rotation", "translation", "cost", "gradient")
        ),
        Column("condition", "{condition:.0e}"),
    ],
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
        "one problem at a time, gradients for all weights; medians of CPU time, one thread, which other programs disturb little",
        "'always SDP' is our layer without the shortcut",
        "the paper's form: 13 variables, 24 constraints of rank 17, and h^2 = 1",
        "our 10x10: without the translation, 20 constraints of rank 20, and h^2 = 1",
        "'Clarabel and KKT' calls Clarabel directly and differentiates by the row-reduced KKT system",
        "errors: largest difference of R, and of the gradient relative to its norm, from ours",
    ]
    wrong = dict.fromkeys(r["layer"] for r in records if r["gradient_error"] > 1.0)
    notes += [f"with {versions('cvxpylayers', 'diffcp')}, gradients of {name} are wrong: compare with SCS" for name in wrong]
    plot = Plot(
        "matches", "total_ms", "layer", "matches", "forward + backward (CPU ms)", kind="loglog",
        title="One problem, gradients for all weights", dashed=lambda name: not name.startswith("poli"),
    )  # fmt: skip
    yield Report("layer", "Certified pose layer against cvxpylayers", records, _TABLE, notes, summary, {"layer": plot})
    yield _comparison(options)


def _comparison(options: Options) -> Report:
    """The paper's form on problems of all kinds: differences from ours where it is tight."""
    each = options.compared // len(KINDS)
    records: list[dict[str, Any]] = []
    for kind in KINDS:
        rng = np.random.default_rng([options.seed, list(KINDS).index(kind)])
        found = [differences(KINDS[kind](rng), rng) for _ in track(range(each), kind)]
        for form in FORMS:
            rows = [one[form] for one in found]
            tight = [row for row in rows if row["tight"]]
            record = {"kind": kind, "form": form, "count": each, "tight": len(tight)}
            for name in ("rotation", "translation", "cost", "gradient"):
                values = [row[name] for row in tight] or [math.nan]
                record |= {f"median_{name}": float(np.median(values)), f"worst_{name}": max(values)}
            condition = max((row["condition"] for row in tight), default=math.nan)
            records.append(record | {"condition": condition, "ours": sum(row["ours"] for row in rows)})
    exact = [r for r in records if r["form"] == next(iter(FORMS))]
    summary: dict[str, Any] = {
        f"worst_{name}": max(r[f"worst_{name}"] for r in exact) for name in ("rotation", "translation", "cost", "gradient")
    }
    count = sum(r["count"] for r in exact)
    summary |= {"problems": count, "tight": sum(r["tight"] for r in exact), "certified": sum(r["ours"] for r in exact)}
    summary |= count_tight(options)
    notes = [
        f"of {count} problems, ours certified {summary['certified']}, and the paper's relaxation is tight on {summary['tight']}: "
        "X has rank one, the second eigenvalue below 1e-4 of the first",
        "cells: median / largest difference from ours over the tight problems. Rotation: entries of R. Translation: of the "
        "source's center, relative to the source's radius. Cost: relative. Gradient of a random linear loss on T, by p, q or C, "
        "whichever is worst: relative to its norm",
        "condition: the largest of M_r, the row-reduced KKT matrix, among the tight problems",
        "points not centered, nor scaled: as in the paper; otherwise centered and of size one. Q has size one in all rows",
        f"of {options.problems} problems with 4 matches and noise of 100 sigma, the hardest kind, the paper's relaxation is "
        f"tight on {summary['tight_hard']}, and ours certifies {summary['certified_hard']}",
    ]
    return Report("layer_paper", "Our pose and gradient against the paper's form", records, _COMPARED, notes, summary)


def count_tight(options: Options) -> dict[str, int]:
    """How often the paper's relaxation is tight on the hardest problems, and ours is certified."""
    rng, tight, certified = np.random.default_rng(options.seed + 2), 0, 0
    for _ in track(range(options.problems), "relaxing"):
        p = few_matches_problem(rng)
        data = p.source, p.target, p.information
        tight += PaperPose(tolerance=1e-12).solve(*map(torch.from_numpy, data))[1].tight
        certified += certify.solve(*data).certified
    return {"tight_hard": tight, "certified_hard": certified}


def differences(problem: PoseProblem, rng: np.random.Generator, forms: Iterable[str] = FORMS) -> dict[str, dict[str, float]]:
    """Differences of pose, cost and gradient between ours and the paper's form, by how the latter is solved."""
    p, q, W = problem.source, problem.target, problem.information
    loss_weights = torch.from_numpy(rng.standard_normal((4, 4)))
    center = p.mean(axis=0)
    size = np.sqrt(((p - center) ** 2).sum(axis=1).mean())

    def ours(p: torch.Tensor, q: torch.Tensor, W: torch.Tensor) -> tuple[torch.Tensor, Any]:
        batch = certified_pose(p, q, W)
        return batch.T_target_source, batch.solutions[0]

    def at(layer: Callable[..., tuple[torch.Tensor, Any]]) -> tuple[np.ndarray, Any, float, list[torch.Tensor]]:
        leaves = [torch.from_numpy(a.copy()).requires_grad_() for a in (p, q, 0.5 * np.linalg.inv(W))]
        T, solution = layer(leaves[0], leaves[1], torch.linalg.inv(2.0 * leaves[2]))
        by_p, by_q, by_C = torch.autograd.grad((T * loss_weights).sum(), leaves)
        pose = T.detach().numpy()
        d = q - p @ pose[:3, :3].T - pose[:3, 3]
        return pose, solution, float(np.einsum("ni,nij,nj->", d, W, d)), [by_p, by_q, _symmetric(by_C)]

    T, answer, cost, gradients = at(ours)
    found = {}
    for name in forms:
        T_paper, solution, cost_paper, gradients_paper = at(FORMS[name].solve)
        off = (T_paper - T)[:3]
        found[name] = {
            "rotation": float(np.abs(off[:, :3]).max()),
            "translation": float(np.linalg.norm(off[:, :3] @ center + off[:, 3])) / size,
            "cost": abs(cost_paper - cost) / cost,
            "gradient": max(_relative(b, a) for a, b in zip(gradients, gradients_paper, strict=True)),
            "condition": solution.condition,
            "tight": solution.tight,
            "ours": answer.certified,
        }
    return found


def _symmetric(gradient: torch.Tensor) -> torch.Tensor:
    """Of a gradient by symmetric matrices: the part that counts."""
    return 0.5 * (gradient + gradient.mT)


def _relative(value: torch.Tensor, reference: torch.Tensor) -> float:
    return float(torch.linalg.norm(value - reference) / torch.linalg.norm(reference))


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


@contextmanager
def _one_thread() -> Iterator[None]:
    """As in training, where several processes share the cores."""
    threads, variable = torch.get_num_threads(), os.environ.get("POLI_NUM_THREADS")
    torch.set_num_threads(1)
    use_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.environ.pop("POLI_NUM_THREADS")
        if variable is not None:
            os.environ["POLI_NUM_THREADS"] = variable


@_one_thread()
def measure_times(options: Options) -> list[dict[str, Any]]:
    """Time forward and backward passes, one problem at a time, on the same problems; methods take turns in bursts."""
    methods: dict[str, Callable[..., torch.Tensor]] = {
        "poli": lambda p, q, W: certified_pose(p, q, W).T_target_source[:3, :3],
        "poli, always SDP": lambda p, q, W: certified_pose(p, q, W, shortcut=False).T_target_source[:3, :3],
        "Clarabel and KKT, paper's form": lambda p, q, W: PaperPose()(p, q, W)[:3, :3],
        "cvxpylayers Clarabel, paper's form": CvxpyPose(13, "Clarabel", paper_solver.FORMS),
        "cvxpylayers Clarabel, our 10x10": CvxpyPose(10, "Clarabel"),
        "cvxpylayers SCS, paper's form": CvxpyPose(13, "SCS", paper_solver.FORMS),
        "cvxpylayers SCS, our 10x10": CvxpyPose(10, "SCS"),
    }
    records = []
    for n in [s for s in _SIZES if s <= options.largest]:
        rng = np.random.default_rng(options.seed + n)
        problems = [random_problem(rng, n, condition=1e2) for _ in range(options.repeats)]
        answers = [_time_once(methods["poli"], p)[2:] for p in problems]
        samples: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in methods}
        for _ in track(range(_TURNS), f"timing {n} matches"):
            for name, method in methods.items():
                _time_once(method, problems[0])  # warm up
                for p, (R, by_W) in zip(problems, answers, strict=True):
                    forward, backward, R_theirs, by_W_theirs = _time_once(method, p)
                    samples[name].append((forward, backward, float((R_theirs - R).abs().max()), _relative(by_W_theirs, by_W)))
        measured = {name: np.array(samples[name]).T for name in methods}
        medians = {name: (float(np.median(ms[0])), float(np.median(ms[1]))) for name, ms in measured.items()}
        for name, (forward, backward) in medians.items():
            times = {"forward_ms": forward, "backward_ms": backward, "total_ms": forward + backward}
            times["times_ours"] = times["total_ms"] / sum(medians["poli"])
            errors = {"rotation_error": float(measured[name][2].max()), "gradient_error": float(measured[name][3].max())}
            records.append({"matches": n, "layer": name, **times, **errors})
    return records


def _time_once(method: Callable[..., torch.Tensor], problem: PoseProblem) -> tuple[float, float, torch.Tensor, torch.Tensor]:
    """CPU milliseconds forward and backward, R, and the gradient of a linear loss on R by the weights."""
    source, target = torch.from_numpy(problem.source), torch.from_numpy(problem.target)
    information = torch.from_numpy(problem.information).requires_grad_()
    loss_weights = torch.arange(1.0, 10.0, dtype=torch.float64).reshape(3, 3)
    start = time.process_time()
    R = method(source, target, information)
    middle = time.process_time()
    (R * loss_weights).sum().backward()
    end = time.process_time()
    assert information.grad is not None
    return 1e3 * (middle - start), 1e3 * (end - middle), R.detach(), _symmetric(information.grad)
