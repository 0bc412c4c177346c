"""Poses found between pairs of scans, with any rotation and with the vertical kept, from one search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cache import Cache
from benchmarks.data.verdict_pairs import PairGroup, Sighting, VerdictPair
from benchmarks.provenance import weights_digest
from poli.errors import DegenerateError
from poli.io.atomic import atomic_path
from poli.kdtree.tree import KDTree
from poli.registration.presets import MAX_TILT, PRESETS
from poli.registration.search import Registration, best_pose, find_hypotheses, promising, refine_poses, surface_features
from poli.registration.verdict import CloudPair, ScanSurface, scan_surface
from poli.se3 import inverse, log

BEFORE, AFTER = "any rotation", "upright"
_TILTS = {BEFORE: None, AFTER: MAX_TILT}


@dataclass(frozen=True)
class Searches:
    """Searches and the surfaces of scans, kept in a folder by pair, preset and weights. Changes of the code are not detected:
    delete the folder after one."""

    folder: Path

    def surface(self, sighting: Sighting, preset: str) -> ScanSurface:
        return _surface(self.folder, sighting, preset)

    def of(self, group: PairGroup, pair: VerdictPair) -> dict[str, Any]:
        key = {"pair": pair.name, "preset": asdict(PRESETS[group.preset]), "weights": weights_digest("lidar")}
        return Cache(self.folder / "poses").get((group.name, group.half), key, lambda: self._search(group, pair))

    def _search(self, group: PairGroup, pair: VerdictPair) -> dict[str, Any]:
        preset = PRESETS[group.preset]
        noise, search = preset.noise_bound, preset.search
        P, Q = (self.surface(sighting, group.preset) for sighting in (pair.source, pair.target))
        about = {"label": pair.label, "pair": pair.name}
        try:
            features = [_features(self.folder, sighting, group.preset) for sighting in (pair.source, pair.target)]
            hypotheses = find_hypotheses(P.points, features[0], Q.points, features[1], noise, search)
        except DegenerateError as error:
            return {**about, BEFORE: {"error": str(error)}, AFTER: {"error": str(error)}}
        surfaces = CloudPair(P.points, P.normals, Q.points, Q.normals, KDTree(Q.points))
        refined: dict[bytes, np.ndarray] = {}  # many poses are promising either way, and refined once
        results = {}
        for name, max_tilt in _TILTS.items():
            try:
                poses = promising(surfaces, hypotheses, noise, search, max_tilt)
                for T in poses:
                    if T.tobytes() not in refined:
                        refined[T.tobytes()] = refine_poses(surfaces, T[None], noise, search)[0]
                mine = np.stack([refined[T.tobytes()] for T in poses])
                found = best_pose(surfaces, hypotheses, mine, noise, P.standing, max_tilt)
                results[name] = {**_evidence(found), **_errors(found.T_target_source, pair.T_target_source)}
            except DegenerateError as error:
                results[name] = {"error": str(error)}
        return {**about, **results}


def searches(
    groups: list[PairGroup], kept: Searches, parts: int = 8, first: int | None = None
) -> Iterator[tuple[PairGroup, VerdictPair, dict[str, Any]]]:
    """Yield all pairs, or the `first` of so many parts: a part of every group, then the next, so that an interrupted run has some
    of each."""
    lists = [(group, group.pairs()) for group in groups]
    for part in range(parts if first is None else min(first, parts)):
        for group, pairs in lists:
            some = pairs[len(pairs) * part // parts : len(pairs) * (part + 1) // parts]
            for pair in sorted(some, key=lambda pair: pair.name):  # scans of one place together
                yield group, pair, kept.of(group, pair)


def _evidence(found: Registration) -> dict[str, Any]:
    names = ("T_target_source", "overlap", "agreement", "margin", "certified")
    return {**{name: getattr(found, name) for name in names}, "inliers": len(found.inliers), "clique": len(found.clique)}


def _errors(T: np.ndarray, T_true: np.ndarray | None) -> dict[str, float | None]:  # (4, 4), (4, 4)
    if T_true is None:
        return {"degrees": None, "meters": None}
    turn = np.linalg.norm(log(inverse(T_true) @ T)[:3])
    return {"degrees": float(np.degrees(turn)), "meters": float(np.linalg.norm(T[:3, 3] - T_true[:3, 3]))}


@lru_cache(maxsize=64)
def _surface(folder: Path, sighting: Sighting, preset: str) -> ScanSurface:
    name = "".join(letter if letter.isalnum() else "_" for letter in f"{sighting.name} {preset}")
    path = folder / "surfaces" / f"{name}.npz"
    if not path.is_file():
        made = scan_surface(sighting.points, PRESETS[preset])
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **made._asdict())
    with np.load(path) as arrays:
        return ScanSurface(arrays["points"], arrays["normals"], arrays["rows"])


@lru_cache(maxsize=64)
def _features(folder: Path, sighting: Sighting, preset: str) -> np.ndarray:  # (N, 99)
    surface = _surface(folder, sighting, preset)
    return surface_features(surface.points, surface.normals, PRESETS[preset].feature_radius, PRESETS[preset].search)
