"""Cache of outcomes: an interrupted benchmark resumes, and nothing is run twice.

An outcome is a JSON file named by the hash of its key, which holds everything it depends on: the drive, the setting, a digest of
the weights, and the state of the code. For our methods, this is a digest of poli's sources, committed or not; for rivals, their
versions and a digest of the adapters.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import poli
from benchmarks.data.drives import RecordedDrive, ThinnedScans
from benchmarks.provenance import weights_digest
from benchmarks.report import plain
from benchmarks.rivals.odometry_contestants import CHOSEN, OURS, PCA, Contestant, Outcome
from poli.io.atomic import atomic_path
from poli.scan import ScanLike

FORGETTABLE = ("poli", "times", "all")


class Cache:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, names: Sequence[str], key: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the cached value of this key, or the result of `make`. `names` are the folders in the cache, for readability."""
        digest = hashlib.sha256(json.dumps(plain(key), sort_keys=True).encode()).hexdigest()[:20]
        path = self.folder.joinpath(*map(_plain_name, names)) / f"{digest}.json"
        kept = _read(path)
        if "value" not in kept:
            kept = plain({"key": key, "value": make()})
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as temporary:
                temporary.write_text(json.dumps(kept))
        return kept["value"]

    def forget(self, which: str = "all") -> None:
        """Delete outcomes. `which`, of `FORGETTABLE`: our own, those with a published time, or all."""
        for path in self.folder.rglob("*.json"):
            key = _read(path).get("key", {})
            timed = key.get("voxel") == CHOSEN
            if which == "all" or (which == "poli" and key.get("method") in OURS) or (which == "times" and timed):
                path.unlink()

    def outcome(self, drive: RecordedDrive, contestant: Contestant, thinned: ThinnedScans | None = None) -> Outcome:
        """The outcome of an odometry on a drive; rivals that are not timed may use `thinned` scans."""

        def run() -> dict[str, Any]:
            thin = thinned is not None and contestant.ours is None and not contestant.timed
            return _flat(contestant.run(thinned[contestant.voxel] if thin and thinned is not None else drive.recorded))

        key = {"drive": drive_identity(drive), **contestant.about, **_state(contestant)}
        return _outcome(self.get((drive.name, contestant.method), key, run))

    def streamed(self, identity: dict[str, Any], contestant: Contestant, scans: Sequence[ScanLike]) -> Outcome:
        """The outcome of an odometry on scans that are read one by one. `identity` tells them from others, and has a `name`."""
        key = {"drive": identity, **contestant.about, **_state(contestant)}
        return _outcome(self.get((identity["name"], contestant.method), key, lambda: _flat(contestant.run(scans))))


def drive_identity(drive: RecordedDrive) -> dict[str, Any]:
    digest = hashlib.sha256(np.ascontiguousarray(drive.poses).tobytes())
    for points in (drive.scans[0], drive.scans[-1]):  # enough to distinguish sensors and noise
        digest.update(np.ascontiguousarray(points).tobytes())
    for known in (drive.times, drive.rings, drive.stamps):
        digest.update(b"" if known is None else np.ascontiguousarray(known[-1]).tobytes())
    return {"name": drive.name, "scans": len(drive), "digest": digest.hexdigest()}


@lru_cache
def our_state() -> dict[str, str]:
    """State of our code, for cache keys."""
    return {"code": _digest_of_sources(Path(poli.__file__).parent)}


@lru_cache
def rivals_state() -> dict[str, Any]:
    """State of the rivals, for cache keys: their versions and a digest of the adapters."""
    versions = {}
    for package in ("small_gicp", "kiss-icp", "genz-icp", "kiss-matcher", "evalio"):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {"adapters": _digest_of_sources(Path(__file__).parent / "rivals"), "versions": versions}


def _digest_of_sources(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _state(contestant: Contestant) -> dict[str, Any]:
    if contestant.ours is None:
        return rivals_state()
    return {**our_state(), "weights": "" if contestant.method == PCA else weights_digest(contestant.ours.model)}


def _plain_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON file; an empty dict if it is missing or damaged."""
    try:
        kept = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _flat(outcome: Outcome) -> dict[str, Any]:
    counted = {"restarts": outcome.restarts, "degenerate": outcome.degenerate}
    return {**counted, "seconds": outcome.seconds, "poses": outcome.poses[:, :3].reshape(-1, 12)}


def _outcome(kept: dict[str, Any]) -> Outcome:
    poses = np.tile(np.eye(4), (len(kept["poses"]), 1, 1))
    poses[:, :3] = np.array(kept["poses"]).reshape(-1, 3, 4)
    return Outcome(poses, np.array(kept["seconds"]), kept["restarts"], kept["degenerate"])
