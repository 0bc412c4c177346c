"""Check that the solver rejects degenerate pose problems, and that certified poses are optimal.

Degenerate problems of many kinds must all be rejected. The same problems perturbed by 1e-12 to 1e-1 may be accepted, but then
the pose must be optimal: a judge that shares no code with the solver searches for a better pose, or an equally good one elsewhere.

Example: python -m benchmarks certificate --problems 1000
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.data.degenerate_problems import DEGENERATE, Problem, nudged, sound
from benchmarks.data.pose_problems import random_rotations
from benchmarks.options import option
from benchmarks.parallel import in_processes
from benchmarks.report import Column, Report, Table
from poli.certify import CertifiedPose, solve
from poli.errors import DegenerateError
from poli.threads import thread_count

_SOUND = "sound problems"
_STARTS = 30
_SOUND_JUDGED = 20  # per thousand sound problems: some have 2,000 matches, and judging takes a second
_BETTER = 1e-6  # relative to the cost: the accuracy of a certificate
_EQUAL = 1e-10  # relative to the cost: costs this close are equal
_ROUNDING = 1e-15  # relative to the cost of collapsing all points into one
_APART = np.deg2rad(1.0)


@dataclass(frozen=True)
class Outcome:
    problems: int = 0
    accepted: int = 0
    certified: int = 0
    wrong: int = 0  # accepted, but another pose is better
    certified_wrong: int = 0  # certified, but another pose is better, or equally good and more than a degree away


@dataclass(frozen=True)
class Options:
    problems: int = option(1000, "random problems per kind; ten times as many sound ones", least=1)
    seed: int = option(0, "seed of the random problems", least=0)


_TABLE = Table(
    [Column("kind", "{kind}")],
    [
        Column("problems", "{exact[problems]}"),
        Column("accepted", "{exact[accepted]}"),
        Column("certified", "{exact[certified]}"),
        Column("nudged: accepted", lambda r: str(r["nudged"]["accepted"]) if r["nudged"] else ""),
        Column("certified", lambda r: str(r["nudged"]["certified"]) if r["nudged"] else ""),
        Column("wrong", lambda r: str((r["nudged"] or r["exact"])["wrong"])),
        Column("certified and wrong", lambda r: str((r["nudged"] or r["exact"])["certified_wrong"])),
    ],
)


def run(options: Options) -> Iterator[Report]:
    problems, seed = options.problems, options.seed
    jobs = [(name, near, problems, seed) for name in DEGENERATE for near in (False, True)]
    jobs += [(_SOUND, False, problems, seed + i) for i in range(1, 11)]
    outcomes = in_processes(_count, jobs, thread_count(), "Problems")
    found: dict[tuple[str, bool], dict[str, int]] = {}
    for (name, near, *_), outcome in zip(jobs, outcomes, strict=True):
        so_far = found.get((name, near), asdict(Outcome()))
        found[name, near] = {key: so_far[key] + value for key, value in asdict(outcome).items()}
    records = [{"kind": name, "exact": found[name, False], "nudged": found.get((name, True))} for name in [*DEGENERATE, _SOUND]]
    notes = [
        "A degenerate problem does not determine the pose and must be rejected. A sound one must be accepted.",
        "Nudged: the same problems with all points and weights perturbed by 1e-12 to 1e-1 of their size, log-uniformly.",
        f"Wrong: one of {_STARTS} runs of Levenberg-Marquardt, which share no code with the solver, ends more than 1e-6 lower.",
        "Certified and wrong: the same, or a pose more than a degree away has the same cost to within 1e-10.",
        f"{_SOUND_JUDGED} in each thousand of the sound problems were judged.",
    ]
    yield Report("certificate", "Reliability of the certificate", records, _TABLE, notes)


def _count(job: tuple[str, bool, int, int]) -> Outcome:
    name, near, problems, seed = job
    rng = np.random.default_rng([seed, list(DEGENERATE).index(name) if name != _SOUND else len(DEGENERATE), near])
    make = sound if name == _SOUND else DEGENERATE[name]
    judged = problems if near else _SOUND_JUDGED if name == _SOUND else 0
    verdicts = [verdict(rng, _nudge(rng, make(rng)) if near else make(rng), i < judged) for i in range(problems)]
    return Outcome(problems, *(sum(verdict[i] for verdict in verdicts) for i in range(4)))


def _nudge(rng: np.random.Generator, problem: Problem) -> Problem:
    return nudged(rng, problem, 10 ** rng.uniform(-12, -1))


def verdict(rng: np.random.Generator, problem: Problem, judged: bool = True) -> tuple[bool, bool, bool, bool]:
    """Whether it is accepted, certified, beaten by another pose, and certified although beaten or equaled."""
    try:
        pose = solve(*problem)
    except DegenerateError:
        return False, False, False, False
    if not judged:
        return True, bool(pose.certified), False, False
    beaten, equalled = judge(rng, problem, pose)
    return True, bool(pose.certified), beaten, bool(pose.certified) and (beaten or equalled)


def judge(rng: np.random.Generator, problem: Problem, pose: CertifiedPose) -> tuple[bool, bool]:
    """Whether a better pose exists, and whether an equally good one exists elsewhere, as found from many starts."""
    source, target, weights = problem
    centers = source.mean(axis=0), target.mean(axis=0)
    size = np.sqrt(((source - centers[0]) ** 2).sum(axis=1).mean())
    p, q = (source - centers[0]) / size, (target - centers[1]) / size
    R = pose.T_target_source[:3, :3]
    t = (R @ centers[0] + pose.T_target_source[:3, 3] - centers[1]) / size
    total = np.einsum("nij,ni,nj->", weights, q, q) + np.einsum("nii->", weights)  # cost of a collapsed cloud: the scale of costs
    mine = float(_costs(p, q, weights, R[None], t[None])[0])
    starts = np.concatenate([R[None], random_rotations(rng, _STARTS)])
    costs, rotations = _descend(p, q, weights / total, starts, np.concatenate([t[None], np.zeros((_STARTS, 3))]))
    beaten = bool(costs.min() * total < mine * (1.0 - _BETTER) - _ROUNDING * total)
    apart = 2.0 * np.arcsin(np.minimum(1.0, np.linalg.norm(rotations - R, axis=(1, 2)) / np.sqrt(8.0)))
    return beaten, bool(((costs * total <= mine * (1.0 + _EQUAL) + _ROUNDING * total) & (apart > _APART)).any())


def _costs(
    p: np.ndarray, q: np.ndarray, W: np.ndarray, R: np.ndarray, t: np.ndarray
) -> np.ndarray:  # R (S, 3, 3), t (S, 3) -> (S,)
    d = q[None] - np.einsum("sij,nj->sni", R, p) - t[:, None]
    return np.einsum("sni,nij,snj->s", d, W, d)


def _descend(
    p: np.ndarray, q: np.ndarray, W: np.ndarray, R: np.ndarray, t: np.ndarray, steps: int = 40
) -> tuple[np.ndarray, np.ndarray]:  # (S,), (S, 3, 3)
    """Run Levenberg-Marquardt from all starts at once. Returns the final costs and rotations."""
    cost = _costs(p, q, W, R, t)
    damping = np.full(len(R), 1e-3)
    for _ in range(steps):
        moved = np.einsum("sij,nj->sni", R, p)
        d = q[None] - moved - t[:, None]
        J = np.zeros((len(R), len(p), 3, 6))  # of the moved point by a left rotation about the origin, and by a translation
        x, y, z = np.moveaxis(moved, 2, 0)
        J[..., 0, 1], J[..., 0, 2], J[..., 1, 0], J[..., 1, 2], J[..., 2, 0], J[..., 2, 1] = z, -y, -z, x, y, -x
        J[..., range(3), range(3, 6)] = 1.0
        WJ = np.einsum("nij,snja->snia", W, J)
        H, g = np.einsum("snia,snib->sab", J, WJ), np.einsum("snia,sni->sa", WJ, d)
        ridge = damping[:, None] * np.einsum("saa->sa", H) + 1e-14
        step = np.linalg.solve(H + ridge[:, :, None] * np.eye(6), g[:, :, None])[:, :, 0]
        turned = _turns(step[:, :3]) @ R
        shifted = t + step[:, 3:]
        lower = _costs(p, q, W, turned, shifted)
        better = lower < cost
        R, t = np.where(better[:, None, None], turned, R), np.where(better[:, None], shifted, t)
        cost = np.where(better, lower, cost)
        damping = np.where(better, damping * 0.2, damping * 5.0).clip(1e-12, 1e8)
    return cost, R


def _turns(omega: np.ndarray) -> np.ndarray:  # (S, 3) -> (S, 3, 3), Rodrigues' formula
    angle = np.linalg.norm(omega, axis=1)
    x, y, z = (omega / np.maximum(angle, 1e-300)[:, None]).T
    K = np.stack([0 * x, -z, y, z, 0 * x, -x, -y, x, 0 * x], axis=1).reshape(-1, 3, 3)
    return np.eye(3) + np.sin(angle)[:, None, None] * K + (1.0 - np.cos(angle))[:, None, None] * (K @ K)
