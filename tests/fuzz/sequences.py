"""Datasets: folders of scans with poses, calibration and manifests."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import poli
from poli.io.datasets import write_folder, write_kitti
from poli.io.datasets.stamped import LAYOUT as MULRAN
from poli.io.datasets.stamped import SENSORS, packed_layout
from poli.io.trajectory_files import _format_tum, format_pose
from poli.se3 import exp

from .damage import Rng, Target, Tree, as_json, changed, check_finite, damage_files, pick, tree_of
from .point_files import scan

STAMP = 1_691_936_557_946_849_179


def _poses(count: int = 3) -> np.ndarray:
    rng = np.random.default_rng(4)
    return np.stack([exp(rng.normal(size=6)) for _ in range(count)])


def _kitti(folder: Path) -> list[Tree]:
    write_kitti(folder, 7, [replace(scan(20, i), stamp=STAMP + i * 10**8) for i in range(3)], _poses())
    return [tree_of(folder)]


def _poli(folder: Path) -> list[Tree]:
    scans = [replace(scan(20, i), stamp=STAMP + i * 10**8) for i in range(3)]
    write_folder(folder / "set", "tiny", scans, _poses(), _poses(), {"seed": 1, "sensor": {"name": "os0"}})
    return [tree_of(folder / "set")]


def _records(layout: np.dtype, seed: int) -> bytes:
    records = np.zeros(20, layout)
    for column, axis in enumerate("xyz"):
        records[axis] = scan(20, seed).points[:, column]
    return records.tobytes()


def _helipr(sensor: str, _folder: Path) -> list[Tree]:
    title = sensor.capitalize()
    stamps = [STAMP + i * 10**8 for i in range(3)]
    tree = {f"LiDAR/{title}/{stamp}.bin": _records(packed_layout(sensor, stamp), i) for i, stamp in enumerate(stamps)}
    lines = [f"{stamp} {_format_tum(T, 0).partition(' ')[2]}\n" for stamp, T in zip(stamps, _poses(), strict=True)]
    return [{**tree, f"LiDAR_GT/{title}_gt.txt": "".join(lines).encode()}]


def _mulran(_folder: Path) -> list[Tree]:
    stamps = [STAMP + i * 10**8 for i in range(3)]
    tree = {f"Ouster/{stamp}.bin": _records(MULRAN, i) for i, stamp in enumerate(stamps)}
    lines = [f"{stamp},{format_pose(T).replace(' ', ',')}\n" for stamp, T in zip(stamps, _poses(), strict=True)]
    return [{**tree, "global_pose.csv": "".join(lines).encode()}]


def _kitti_raw(folder: Path) -> list[Tree]:
    drive, frames = folder / "2011_09_26" / "2011_09_26_drive_0009_sync", (0, 1, 3)
    for name in ("velodyne_points", "oxts"):
        (drive / name / "data").mkdir(parents=True)
        times = "".join(f"2011-09-26 13:02:25.{100_000_000 * (frame + 1)}\n" for frame in range(4))
        (drive / name / "timestamps.txt").write_text(times)
    for frame in frames:
        poli.write(scan(20, frame).keep("intensity"), drive / "velodyne_points" / "data" / f"{frame:010d}.bin")
        (drive / "oxts" / "data" / f"{frame:010d}.txt").write_text(f"49.01{frame} 8.42 115.2 0.01 0.02 {0.1 * frame} " + "0 " * 24)
    (drive.parent / "calib_imu_to_velo.txt").write_text("calib_time: 25-May-2012\nR: 1 0 0 0 1 0 0 0 1\nT: -0.8 0.3 -0.8\n")
    return [tree_of(folder)]


def _folder(ending: str, folder: Path) -> list[Tree]:
    for i in range(3):
        poli.write(scan(20, i).keep("intensity"), folder / f"scan{i}{ending}")
    return [tree_of(folder)]


def _read(kind: str, options: dict, folder: Path) -> object:
    dataset = poli.dataset(kind, folder, **options)
    check_finite("poses", dataset.poses)
    for found in dataset:
        check_finite("points", found.points)
    return dataset


def _damage(tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    """Damage the files, change the manifest as JSON, or rename files, since datasets are recognized by names."""
    kind = rng.random()
    if kind < 0.15 and "dataset.json" in tree:
        import json

        return {**tree, "dataset.json": as_json(changed(json.loads(tree["dataset.json"]), rng))}
    if kind < 0.25:
        tree = dict(tree)
        name = pick(rng, sorted(tree))
        stem = Path(name)
        odd = pick(rng, ("0", "-1", "x", "9" * 30, "007", "1e3", "\udcff", "a b", "+5", "٣"))
        tree[str(stem.with_name(f"{odd}{stem.suffix}"))] = tree.pop(name)
        return tree
    return damage_files(tree, rng, others)


TARGETS = (
    Target("dataset kitti", _kitti, partial(_read, "kitti", {}), _damage, share=2),
    Target("dataset kitti_raw", _kitti_raw, partial(_read, "kitti_raw", {}), _damage),
    Target("dataset poli", _poli, partial(_read, "poli", {}), _damage, share=2),
    *(Target(f"dataset helipr {s}", partial(_helipr, s), partial(_read, "helipr", {"sensor": s}), _damage) for s in SENSORS),
    Target("dataset mulran", _mulran, partial(_read, "mulran", {}), _damage),
    Target("dataset folder", partial(_folder, ".bin"), partial(_read, "folder", {}), _damage),
    Target("dataset auto", partial(_folder, ".pcd"), partial(_read, "auto", {}), _damage),
)
