"""Folders written by commands (odometry runs, densified trees and bags), and files as `poli view` opens them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np

from poli.cli.inputs import naming
from poli.cli.view_content import subject_of
from poli.configs import DensifyConfig
from poli.densification.resume import describe_run, other_settings, read_part, read_run, write_part
from poli.io.tables import write_json
from poli.lidar_odometry.run_folder import Recording, read_steps
from poli.lidar_odometry.step import Status, Step
from poli.se3 import exp
from poli.viewer.content import Estimates
from poli.viewer.page import write_page

from .damage import Rng, Target, Tree, as_json, changed, damage_files, only_file, tree_of
from .point_files import TARGETS as POINT_FILES


def _odometry(folder: Path) -> list[Tree]:
    rng = np.random.default_rng(8)
    about = {"data": {"name": "tiny", "path": "/nowhere", "dataset": "kitti", "options": {"sequence": "07"}, "first": 0}}
    with Recording(folder / "run", about) as recording:
        for i in range(5):
            status = Status.TRACKED if i else Status.FIRST
            recording.append(Step(i, i * 10**8, exp(0.1 * rng.normal(size=6)), status, "", 100, None, {}))
    tree = tree_of(folder / "run")
    tree["truth_kitti.txt"] = tree["poses_kitti.txt"]
    (folder / "field").mkdir()
    field = next(target for target in POINT_FILES if target.name == "field .ply").seeds(folder / "field")[0]
    return [tree, {**tree, "map.ply": field["field.ply"]}]


def _read_odometry(folder: Path) -> object:
    subject = subject_of(folder, "auto", {}, Estimates())
    read_steps(folder)
    return write_page(folder.parent / "page.html", subject.name, subject.panels(), note=subject.note)


def _damage_json(name: str, tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    if name in tree and rng.random() < 0.5:
        return {**tree, name: as_json(changed(json.loads(tree[name]), rng))}
    return damage_files(tree, rng, others)


def _view(folder: Path) -> object:
    path = only_file(folder)
    with naming(path):
        subject = subject_of(path, "auto", {}, Estimates(model="pca"))
        return write_page(folder.parent / "page.html", subject.name, subject.panels(), note=subject.note)


def _densified(folder: Path) -> list[Tree]:
    run = describe_run(Path("/data/kitti"), DensifyConfig(model="pca"), sequences=["07"])
    write_json(folder / "densify.json", run)
    for number in range(3):
        write_part(folder / f"{number}.part", bytes(100 + number))
    return [tree_of(folder)]


def _read_densified(folder: Path) -> object:
    run = describe_run(Path("/data/kitti"), DensifyConfig(model="pca"), sequences=["07"])
    before = read_run(folder / "densify.json")
    said = other_settings(folder, before, run) if before is not None and before != run else ""
    return said, [read_part(folder / f"{number}.part") for number in range(3)]


def _shown(name: str) -> Target:
    before = next(target for target in POINT_FILES if target.name == name)
    return Target(f"view {name}", before.seeds, _view, before.damage, True)


TARGETS = (
    Target("odometry run", _odometry, _read_odometry, partial(_damage_json, "config.json"), share=4),
    Target("densified", _densified, _read_densified, partial(_damage_json, "densify.json"), share=2),
    *(_shown(name) for name in ("field .npz", "points .pcd")),
)
