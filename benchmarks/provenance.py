"""Where a table comes from: the commit, the weights, the data, the machine and the command that made it."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from poli.estimation.estimate import load_model
from poli.threads import thread_count

ROOT = Path(__file__).parents[1]
EXPERIMENTS = Path(__file__).parent / "experiments"
_DIGITS = 16
_SAMPLE = 65_536  # bytes of a scan that are part of a digest
_LOOKED_AT = 5  # scans of a sequence


@dataclass(frozen=True)
class Origin:
    """What a run of an experiment depends on. Made at its start: the code may change while it runs."""

    experiment: str
    options: Any
    commit: str
    source: str  # digest of the experiment's file
    weights: dict[str, str]  # by model

    @staticmethod
    def of(name: str, models: Sequence[str], options: Any) -> Origin:
        chosen = [getattr(options, "model", None), *getattr(options, "models", ())]
        used = dict.fromkeys([*models, *(model for model in chosen if isinstance(model, str) and model != "pca")])
        weights = {Path(model).stem: weights_digest(model) for model in used}
        return Origin(name, options, commit(), source_digest(name, getattr(options, "name", "")), weights)

    def about(self, text: str) -> dict[str, Any]:
        """Everything that is recorded with a report. `text`: the report, which names the sequences that it is about."""
        return {
            "command": command_line(), "experiment": self.experiment, "commit": self.commit, "source": self.source,
            "weights": self.weights, "data": data_digests(self.options, text), "cpu": processor(), "threads": thread_count(),
            "versions": versions("numpy", "numba", "clarabel", "torch", "cvxpylayers", "open3d", "small_gicp"),
        }  # fmt: skip


def one_line(about: dict[str, Any]) -> str:
    """The record of a report as one line of Markdown."""
    parts = [f"`{about['command']}`", f"commit {about['commit']}"]
    parts += [f"model {name} {digest}" for name, digest in about["weights"].items()]
    parts += [f"data {', '.join(f'{name} {digest}' for name, digest in about['data'].items())}"] if about["data"] else []
    return "; ".join([*parts, f"{about['cpu']}, {about['threads']} threads", about["versions"]])


def command_line() -> str:
    """The command line as typed; of absolute paths, which differ between machines, the last part only."""
    words = [",".join(Path(part).name if part.startswith("/") else part for part in word.split(",")) for word in sys.argv[1:]]
    return shlex.join(["python", "-m", "benchmarks", *words])


def environment() -> str:
    """The machine and the package versions that the results depend on."""
    python = ".".join(map(str, sys.version_info[:3]))
    packages = versions("numpy", "numba", "clarabel", "torch", "cvxpylayers", "open3d", "small_gicp")
    return f"{processor()}, {os.cpu_count()} cores, {thread_count()} threads; Python {python}, {packages}"


def versions(*packages: str) -> str:
    """Names and versions of those packages that are installed."""
    found = []
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{package} {importlib.metadata.version(package)}")
    return ", ".join(found)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def commit() -> str:
    """The commit of the clone, followed by `+ changes` if code or benchmarks differ from it; `unknown` outside of a clone."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + (" + changes" if git("status", "--porcelain", "src", "benchmarks") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


# --- digests


@lru_cache(maxsize=8)
def weights_digest(model: str) -> str:
    """Digest of a model's weights and calibration, independent of the name and the other contents of its file."""
    network = load_model(model)
    digest = hashlib.sha256(repr(network.calibration).encode())
    for name, array in sorted(network.weights.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:_DIGITS]


def source_digest(name: str, part: str = "") -> str:
    """Digest of what the file or folder of an experiment does: imports, comments and docstrings of the file do not count.

    `part` is one of the names of an experiment that has several, each with its file; the other files are shared by all.
    """
    files = sorted((EXPERIMENTS / name).glob("*.py")) or [EXPERIMENTS / f"{name}.py"]
    parts = getattr(import_module(f"benchmarks.experiments.{name}"), "NAMES", ()) if part else ()
    files = [file for file in files if part not in parts or file.stem == part or file.stem not in parts]
    digest = hashlib.sha256()
    for file in files:
        body = [node for node in ast.parse(file.read_text()).body if not isinstance(node, ast.Import | ast.ImportFrom)]
        body = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
        digest.update("\n".join(map(ast.dump, body)).encode())
    return digest.hexdigest()[:_DIGITS]


def data_digests(options: Any, text: str) -> dict[str, str]:
    """Digests of the real data of a report: the sequences under `options.real` that its text names, and the files of options."""
    found: dict[str, str] = {}
    for one in fields(options):
        value = getattr(options, one.name)
        for path in value if isinstance(value, tuple) else [value]:
            if isinstance(path, Path) and path.is_file():
                found[path.stem] = hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
    for real in (getattr(options, "real", None), getattr(options, "kitti", None)):
        if real is not None and (real / "sequences").is_dir():
            names = [folder.name for folder in sorted((real / "sequences").iterdir()) if folder.is_dir()]
            found |= {name: sequence_digest(real, name) for name in names if _named(name, text)}
    helipr = getattr(options, "helipr", None)
    if helipr is not None and helipr.is_dir():
        names = [folder.name for folder in sorted(helipr.iterdir()) if (folder / "LiDAR").is_dir()]
        found |= {name: folder_digest(helipr / name) for name in names if _named(name, text)}
    return found


def _named(name: str, text: str) -> bool:
    """Whether a text names a sequence; "00" is not in "100" or "0.00"."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def sequence_digest(root: Path, name: str) -> str:
    """Digest of a sequence of KITTI: that of its folder, and its poses."""
    return folder_digest(root / "sequences" / name, root / "poses" / f"{name}.txt")


def folder_digest(folder: Path, poses: Path | None = None) -> str:
    """Digest of a sequence: names and sizes of all its files, its poses, and parts of a few scans."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = hashlib.sha256("".join(f"{path.name} {path.stat().st_size}\n" for path in files).encode())
    if poses is not None and poses.is_file():
        digest.update(poses.read_bytes())
    for path in files[:: max(1, len(files) // _LOOKED_AT)]:
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:_DIGITS]
