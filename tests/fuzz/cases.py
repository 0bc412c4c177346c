"""Numbered cases: the same seed and number give the same input, and a kept case can be run again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from . import bags, models, point_files, runs, sequences
from .target import Target, Tree, tree_of, write_tree

TARGETS: tuple[Target, ...] = (
    *point_files.TARGETS, *sequences.TARGETS, *bags.TARGETS, *models.TARGETS, *runs.TARGETS,
)  # fmt: skip
NOTE = "why.txt"


@dataclass(frozen=True)
class Case:
    target: Target
    tree: Tree


def chosen_targets(words: str) -> list[Target]:
    """Targets whose names contain one of the comma-separated words, each repeated according to its share."""
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    found = [target for target in TARGETS if not wanted or any(word in target.name for word in wanted)]
    if not found:
        raise SystemExit(f"no target has a name with {words!r}; there are {', '.join(target.name for target in TARGETS)}")
    return [target for target in found for _ in range(target.share)]


@cache
def seeds_of(name: str) -> list[Tree]:
    target = target_called(name)
    with TemporaryDirectory() as folder:
        return target.seeds(Path(folder))


def target_called(name: str) -> Target:
    return next(target for target in TARGETS if target.name == name)


def make_case(targets: list[Target], seed: int, number: int) -> Case:
    target = targets[number % len(targets)]
    rng = np.random.default_rng([seed, number])
    trees = seeds_of(target.name)
    tree = trees[int(rng.integers(len(trees)))]
    others = seeds_of(targets[int(rng.integers(len(targets)))].name) if rng.random() < 0.2 else trees
    return Case(target, target.damage(tree, rng, others))


def keep(case: Case, folder: Path, why: str) -> None:
    """Keep the input, the name of its target and the outcome in `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "input").mkdir(parents=True)
    write_tree(case.tree, folder / "input")
    (folder / NOTE).write_text(f"{case.target.name}\n{why}\n", encoding="utf-8", errors="backslashreplace")


def kept(folder: Path) -> Case:
    name = (folder / NOTE).read_text(encoding="utf-8").splitlines()[0]
    return Case(target_called(name), tree_of(folder / "input"))
