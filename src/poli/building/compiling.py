"""Compile all kernels for several CPU levels, in two processes at a time, and write a file per level."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from poli.building.stage import collect
from poli.errors import PoliError
from poli.files.atomic import atomic_path
from poli.native.bundle import bundled
from poli.native.machine import HOST, runs, settings_of
from poli.native.package import ENDING
from poli.native.sources import PACKAGE

_LISTS = 2  # of the warm-up, which is also the number of processes


def compile_all(levels: Sequence[str], out: Path, say: Callable[[str], None] = print) -> None:
    """Write `out/x86-64-v3.poli` and so on, each atomically."""
    with tempfile.TemporaryDirectory(prefix="poli-") as scratch:
        first = next((level for level in levels if runs(level)), HOST)  # the warm-up must run on this CPU
        folder = Path(scratch) / first
        say(f"poli: compiling kernels for {first}, about two minutes")
        rehearsal = [["rehearse", str(number)] for number in range(_LISTS)]
        _run(rehearsal, first, folder)
        answers = [json.loads(answer) for answer in _run(rehearsal, first, folder)]
        again = sorted({name for answer in answers for name in answer["compiled"]})
        if again:
            raise PoliError(f"{', '.join(again)}: compiled twice, so the compiled code cannot be stored; change these kernels")
        wanted = {(kernel, types) for answer in answers for kernel, types in answer["loaded"]}
        for level in levels:
            if level != first:
                say(f"poli: compiling kernels for {level}, about two minutes")
                shares = [["compile", str(folder), str(number), str(_LISTS)] for number in range(_LISTS)]
                _run(shares, level, Path(scratch) / level, json.dumps(sorted(wanted)))
            made_for, overloads = collect(Path(scratch) / level, wanted)
            content = bundled(made_for, overloads)
            out.mkdir(parents=True, exist_ok=True)
            with atomic_path(out / f"{level}{ENDING}") as temporary:
                temporary.write_bytes(content)
            say(f"poli: {len(overloads)} kernels for {level}, {len(content) / 1e6:.1f} MB")


def _run(tasks: Sequence[list[str]], level: str, cache: Path, text: str = "") -> list[str]:
    """Run these tasks at the same time and return their output."""
    cache.mkdir(exist_ok=True)
    environment = _environment(level, cache)
    command = [sys.executable, "-m", "poli.building.stage"]
    pipe = subprocess.PIPE
    children = [
        subprocess.Popen([*command, *task], env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for task in tasks
    ]
    try:
        for child in children:  # write to all first, so that no task waits for another
            assert child.stdin is not None
            child.stdin.write(text)
            child.stdin.close()
            child.stdin = None
        answers = [child.communicate() for child in children]
    finally:
        for child in children:
            child.kill()
    for child, (_, complaint) in zip(children, answers, strict=True):
        if child.returncode:
            raise PoliError(f"kernels could not be compiled for {level}: {complaint.strip() or child.returncode}")
    return [answer for answer, _ in answers]


def _environment(level: str, cache: Path) -> Mapping[str, str]:
    """Return an environment without the user's numba settings and without previously compiled code.

    The hash seed is fixed, because the order of sets determines the order of instructions: the same sources and the same numba give
    the same code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "POLI_"))}
    ours = {"NUMBA_CACHE_DIR": str(cache), "POLI_NATIVE": "off", "POLI_NATIVE_NOTICE": "0", "POLI_NUM_THREADS": "1"}
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    paths = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    return kept | ours | threads | settings_of(level) | {"PYTHONPATH": paths}
