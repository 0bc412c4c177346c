"""Fuzz targets: valid inputs, how they are damaged, and the functions that read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .mutations import BINARY, TEXT, Mutation, Rng, damaged, pick

Tree = dict[str, bytes]  # files by their names in a folder
Damage = Callable[[Tree, Rng, list[Tree]], Tree]

TEXT_ENDINGS = (".txt", ".csv", ".xyz", ".obj", ".json", ".toml", ".yaml")


class NotFinite(Exception):
    """An answer contains numbers that are not finite."""


@dataclass(frozen=True)
class Target:
    name: str
    seeds: Callable[[Path], list[Tree]]  # made in an empty folder
    read: Callable[[Path], object]  # reads the folder of a case; raises NotFinite if the answer is not finite
    damage: Damage
    named: bool = False  # whether errors name the file
    share: int = 1  # share of the cases


def mutations_of(name: str, data: bytes) -> tuple[Mutation, ...]:
    if name.endswith(TEXT_ENDINGS):
        return TEXT
    return TEXT + BINARY if data[:5] in (b"# .PC", b"ply\nf") else BINARY


def damage_files(tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    """Damage one file; with several files, occasionally remove one, empty it, or replace it by another."""
    tree = dict(tree)
    name = pick(rng, sorted(tree))
    odd = rng.random()
    if len(tree) > 1 and odd < 0.04:
        del tree[name]
    elif len(tree) > 1 and odd < 0.08:
        tree[name] = tree[pick(rng, sorted(tree))]
    elif len(tree) > 1 and odd < 0.1:
        tree[name] = b""
    else:
        source = pick(rng, others)
        other = source.get(name) or source[pick(rng, sorted(source))]
        tree[name] = damaged(tree[name], rng, other, mutations_of(name, tree[name]))
    return tree


def tree_of(folder: Path) -> Tree:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_tree(tree: Tree, folder: Path) -> None:
    for name, data in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def check_finite(what: str, *arrays: np.ndarray | None) -> None:
    for array in arrays:
        if array is not None and not np.isfinite(array).all():
            raise NotFinite(what)
