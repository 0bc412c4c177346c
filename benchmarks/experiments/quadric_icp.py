"""Whether curvature helps poses: ICP on quadrics against ICP on planes, with the same ellipsoids, matches and solver.

Example: python -m benchmarks quadric_icp --mesh dragon.ply,happy_buddha.ply --json docs/results/quadric_icp.json
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.data.curved_surfaces import FORMULAS, held_out_surfaces
from benchmarks.options import option
from benchmarks.report import Column, Report, Table, column_list
from poli.estimation import estimate
from poli.se3 import log, so3_exp
from poli.tasks.quadric_icp import quadric_icp

_TURN, _SHIFT = np.radians(5.0), 0.05  # of the guess


@dataclass(frozen=True)
class Options:
    mesh: tuple[Path, ...] = option((), "meshes that the model never saw")
    points: tuple[int, ...] = option((300, 1000), "points of a cloud")
    noise: tuple[float, ...] = option((0.0, 0.01), "standard deviation of the points, in radii")
    pairs: int = option(12, "pairs of clouds a row", least=1)


_TABLE = Table(
    [*column_list(surface="{surface}", points="{points}"), Column("noise", "{noise:.2f}")],
    [
        Column("planes: rotation (deg) / translation", "{planes_turn:.3f} / {planes_shift:.4f}"),
        Column("quadrics", "{quadrics_turn:.3f} / {quadrics_shift:.4f}"),
        Column("quadrics / planes", "{turn_ratio:.2f} / {shift_ratio:.2f}"),
    ],
)


def run(options: Options) -> Iterator[Report]:
    # A sphere or a cylinder has no unique pose; the torus keeps only its tilt and center.
    surfaces = {"saddle": FORMULAS["saddle"]} | held_out_surfaces(6, options.mesh)
    records = []
    for name, draw in surfaces.items():
        for points in options.points:
            for noise in options.noise:
                errors = np.array([_errors(draw, points, noise, seed) for seed in range(options.pairs)])  # (pairs, 2, 2)
                (flat_turn, flat_shift), (bent_turn, bent_shift) = np.median(errors, axis=0)
                records.append({
                    "surface": name, "points": points, "noise": noise, "planes_turn": flat_turn, "planes_shift": flat_shift,
                    "quadrics_turn": bent_turn, "quadrics_shift": bent_shift, "turn_ratio": bent_turn / flat_turn,
                    "shift_ratio": bent_shift / flat_shift,
                })  # fmt: skip
    summary = {part: float(np.exp(np.mean([np.log(r[part]) for r in records]))) for part in ("turn_ratio", "shift_ratio")}
    notes = [
        f"two clouds of one surface, guess off by 5 degrees and 0.05 radii; medians over {options.pairs} pairs; radius about 1",
        f"geometric means of the ratios: rotation {summary['turn_ratio']:.2f}, translation {summary['shift_ratio']:.2f}",
    ]
    yield Report("quadric_icp", "ICP on quadrics against planes", records, _TABLE, notes, summary)


def _errors(draw, points: int, noise: float, seed: int) -> list[tuple[float, float]]:
    rng = np.random.default_rng([seed, points])
    clouds = [draw(points, rng) for _ in range(2)]
    source, target = (
        estimate(_noisy(c.points, noise, rng), model="objects", viewpoint=c.points + 1e3 * c.normals, warn=False) for c in clouds
    )
    axis, step = rng.standard_normal((2, 3))
    guess = np.eye(4)
    guess[:3, :3], guess[:3, 3] = so3_exp(_TURN * axis / np.linalg.norm(axis)), _SHIFT * step / np.linalg.norm(step)
    found = [quadric_icp(source, target, guess, max_distance=0.5, curved=curved).T_target_source for curved in (False, True)]
    return [(float(np.degrees(np.linalg.norm(log(T)[:3]))), float(np.linalg.norm(T[:3, 3]))) for T in found]


def _noisy(points: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    return points + noise * rng.standard_normal(points.shape)
