"""Where the drives of `python -m benchmarks odometry` come from, and what contestants made of them: kept, so that nothing is run twice.

A run is a JSON file `DRIVE/METHOD/HASH.json`; the hash is of everything that decides its result, so that a changed setting, drive
or model is another run. It knows nothing of changes to the odometry's code: those are what `Kept.forget` is for.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.drives import RealDrive, RecordedDrive, ThinnedScans
from benchmarks.data.real_sequences import refined_pose
from benchmarks.rivals.odometry_contestants import CHOSEN, OURS, PCA, Contestant, Outcome
from poli import __version__
from poli.estimation.inference import load_model
from poli.files.atomic import atomic_path

FORGETTABLE = ("poli", "times", "all")
TIMED = ", timed"  # ends the name of a drive that is run again for its time


class Kept:
    """Outcomes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def outcome(self, drive: RecordedDrive, contestant: Contestant, thinned: ThinnedScans | None = None) -> Outcome:
        """As it was kept, or from a run now; rivals whose time does not count may be given `thinned` scans."""
        key = {"drive": _identity(drive), **contestant.about, **_version(contestant)}
        path = self._path(drive.name, contestant.method, key)
        found = _read(path)
        if found is None:
            thin = thinned is not None and contestant.ours is None and not contestant.timed
            found = contestant.run(thinned[contestant.voxel] if thin and thinned is not None else drive.scans)
            _write(path, key, found)
        return found

    def reference(self, source: RealDrive) -> np.ndarray:  # (M, 4, 4)
        """The sequence's own poses, each motion from scan to scan refined by GICP on the full scans."""
        real = source.sequence
        drive = RealDrive(source.root, replace(real, beams=None)).open()
        key = {"drive": _identity(drive), "reference": "refined"}
        path = self._path(real.sequence, "reference", key)
        found = _read(path)
        if found is None:
            poses = [drive.poses[0]]
            for row in range(len(drive) - 1):
                poses.append(poses[-1] @ refined_pose(source.root, real.sequence, row, real.nearest).T_q_p)
            found = Outcome(np.stack(poses), np.empty(0))
            _write(path, key, found)
        return found.poses

    def forget(self, which: str) -> None:
        """`which`, of `FORGETTABLE`: our own outcomes, those that carry a published time, or everything."""
        for path in self.folder.glob("*/*/*.json"):
            key = _read_json(path).get("key", {})
            timed = key.get("voxel") == CHOSEN or key.get("drive", {}).get("name", "").endswith(TIMED)
            if which == "all" or (which == "poli" and key.get("method") in OURS) or (which == "times" and timed):
                path.unlink()

    def _path(self, drive: str, method: str, key: dict[str, Any]) -> Path:
        name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / _plain(drive) / _plain(method) / f"{name}.json"


def _identity(drive: RecordedDrive) -> dict[str, Any]:
    digest = hashlib.sha256(np.ascontiguousarray(drive.poses).tobytes())
    for points in (drive.scans[0], drive.scans[-1]):  # a drive's first and last scan tell it from one of another sensor or noise
        digest.update(np.ascontiguousarray(points).tobytes())
    return {"name": drive.name, "scans": len(drive), "digest": digest.hexdigest()}


def _version(contestant: Contestant) -> dict[str, str]:
    if contestant.ours is None:
        return {}
    weights = "" if contestant.method == PCA else weights_digest(contestant.ours.model)
    return {"version": __version__, "weights": weights}


@lru_cache(maxsize=8)
def weights_digest(model: str) -> str:
    """A digest of a model's numbers, whatever its file is called."""
    network = load_model(model)
    digest = hashlib.sha256(repr(network.calibration).encode())
    for name, array in sorted(network.weights.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _read_json(path: Path) -> dict[str, Any]:
    """Nothing from a file that there is not, or a damaged one, which is made anew."""
    try:
        kept = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _read(path: Path) -> Outcome | None:
    kept = _read_json(path)
    try:
        poses = np.tile(np.eye(4), (len(kept["poses"]), 1, 1))
        poses[:, :3] = np.array(kept["poses"]).reshape(-1, 3, 4)
        return Outcome(poses, np.array(kept["seconds"]), kept["restarts"], kept["degenerate"])
    except (ValueError, KeyError, TypeError):
        return None


def _write(path: Path, key: dict[str, Any], outcome: Outcome) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    poses = outcome.poses[:, :3].reshape(-1, 12).tolist()
    counted = {"restarts": outcome.restarts, "degenerate": outcome.degenerate}
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps({"key": key, **counted, "seconds": outcome.seconds.tolist(), "poses": poses}))
