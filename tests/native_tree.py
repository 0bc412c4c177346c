"""A copy of the package in a separate folder, with precompiled test kernels, for tests of `poli.native`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import poli
from poli.building.stage import collect
from poli.native.bundle import Bundle, bundled

SAMPLE = """
import numpy as np
from poli.kernel import kernel
from poli.sample_constant import FACTOR

@kernel
def scaled(values):
    return FACTOR * values

@kernel
def summed(values):
    total = 0.0
    for value in scaled(values):
        total += value
    return total

@kernel
def taken_apart(values, place):
    if place < 0:
        raise IndexError("no such place")
    return values[:place].copy(), values[place:].copy(), "rest"
"""

# Calls the given functions and prints the results, the number of kernels that numba compiled, and the number that were loaded.
CHILD = """
import json, sys
import numpy as np
from numba.core.event import install_recorder
what, dtype = sys.argv[1:]
with install_recorder("numba:compile") as compiled:
    if what == "sample":
        from poli.sample import scaled, summed, taken_apart
        values = np.arange(6.0, dtype=dtype)
        answers = [summed(values), scaled(values).tolist(), [part.tolist() for part in taken_apart(values, 2)[:2]]]
        try:
            answers.append(taken_apart(values, -1))
        except IndexError as error:
            answers.append(str(error))
        kernels = [scaled, summed, taken_apart]
    elif what == "linked":
        from poli.kernel import kernel
        from poli.sample import scaled, summed
        summed(np.arange(6.0))
        @kernel
        def twice(values):
            return summed(values) + summed(scaled(values))
        answers, kernels = [twice(np.arange(6.0))], [summed]
    else:
        import poli
        from poli.voxels import voxel_downsample, voxel_numbers
        points = np.random.default_rng(0).standard_normal((700, 3))
        fields = [poli.pca(points, k=9)]
        answers = [voxel_downsample(points, 0.3).points.tolist()]
        answers += [[field.covariances.tolist(), field.normals.tolist()] for field in fields]
        kernels = [voxel_numbers]
print(json.dumps([answers, len(compiled.buffer) // 2, sum(len(kernel.stats.cache_hits) for kernel in kernels)]))
"""


@dataclass(frozen=True)
class Answer:
    results: list
    compiled: int
    loaded: int
    stderr: str


@dataclass(frozen=True)
class Tree:
    root: Path

    @property
    def package(self) -> Path:
        return self.root / "poli"

    @property
    def compiled(self) -> Path:
        return self.package / "native" / "compiled" / "host.poli"

    def run(self, what: str, cache: Path, dtype: str = "float64", **settings: str) -> Answer:
        """Run in a new process with this cache."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("POLI_", "NUMBA_"))}
        environment = clean | {"PYTHONPATH": str(self.root), "NUMBA_CACHE_DIR": str(cache)} | settings
        done = subprocess.run(
            [sys.executable, "-c", CHILD, what, dtype], env=environment, cwd=self.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return Answer(*json.loads(done.stdout), done.stderr)

    def compile(self, cache: Path) -> None:
        """Turn the contents of this cache into the package's precompiled code."""
        files = (cache / "poli" / "kernels").glob("*.poli")
        wanted = {key for path in files for key in Bundle(lambda path=path: path.open("rb")).overloads()}
        self.compiled.parent.mkdir(exist_ok=True)
        self.compiled.write_bytes(bundled(*collect(cache, wanted)))

    def copy(self, root: Path) -> Tree:
        shutil.copytree(self.root, root)
        return Tree(root)


def make_tree(root: Path) -> Tree:
    shutil.copytree(Path(poli.__file__).parent, root / "poli", ignore=shutil.ignore_patterns("__pycache__", "compiled", "models"))
    (root / "poli" / "sample.py").write_text(SAMPLE)
    (root / "poli" / "sample_constant.py").write_text("FACTOR = 3.0\n")
    return Tree(root)
