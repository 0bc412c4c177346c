"""`make test-machines`: the numerical tests and a set of fixed questions, under the settings of other machines.

A setting is a set of environment variables that changes which code runs: the CPU that numba compiles for, the kernels that
OpenBLAS chooses, and the number of threads. Each setting runs in new processes. The answers of all settings are compared with
those of the first, to the tolerances below.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.provenance import environment

TESTS = Path(__file__).parent.parent
# The tests of numerical code. Files, commands and pictures do not differ between CPUs.
FILES = (
    "certify", "kdtree", "registration", "estimation/test_pca.py", "estimation/test_grouping.py", "estimation/test_runtime.py",
    "lidar_odometry/test_gicp.py", "lidar_odometry/test_odometry.py",
)  # fmt: skip
# Allowed differences between two machines: none in verdicts, rounding in solutions of well-posed problems, float32 rounding in the
# network (relative to a covariance's largest entry), and the stopping point of searches and iterations.
TOLERANCES = {
    "certify: rotation": 1e-8,
    "certify: verdict": 0.0,
    "estimate: pca": 1e-9,
    "estimate: objects": 1e-3,
    "estimate: lidar": 1e-3,
    "gicp": 1e-3,
    "register": 2e-2,
    "odometry": 2e-3,
    "densify": 1e-3,
}


@dataclass(frozen=True)
class Setting:
    name: str
    variables: dict[str, str] = field(default_factory=dict)
    needs: str = ""  # a flag of /proc/cpuinfo


SETTINGS = (
    Setting("as installed"),
    *(Setting(f"numba for {cpu}", {"NUMBA_CPU_NAME": cpu}) for cpu in ("generic", "haswell")),
    *(Setting(f"numba for {cpu}", {"NUMBA_CPU_NAME": cpu}, "avx512f") for cpu in ("skylake-avx512", "znver4")),
    *(Setting(f"OpenBLAS for {core}", {"OPENBLAS_CORETYPE": core}) for core in ("Prescott", "Haswell", "Zen")),
    Setting("OpenBLAS for SkylakeX", {"OPENBLAS_CORETYPE": "SkylakeX"}, "avx512f"),
    *(Setting(f"{count} threads", {"POLI_NUM_THREADS": str(count)}) for count in (1, 2, 3, 8, 9**9)),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m machines", description=__doc__)
    parser.add_argument("--only", help="only settings whose name contains this")
    parser.add_argument("--answers-only", action="store_true", help="compare the answers, without running the tests")
    parser.add_argument("--processes", type=int, default=2, help="settings to run in parallel")
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    given = parser.parse_args()
    chosen = [s for s in SETTINGS if s is SETTINGS[0] or not given.only or given.only in s.name]
    possible = [s for s in chosen if not s.needs or s.needs in _cpu_flags()]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.processes) as pool:

        def run(setting: Setting) -> tuple[dict[str, np.ndarray], str]:
            answers = _answers(setting, Path(folder) / f"{possible.index(setting)}.npz")
            tests = "not run" if given.answers_only else _run_tests(setting)
            print(f"{setting.name}: tests {tests}", flush=True)
            return answers, tests

        found = dict(zip((s.name for s in possible), pool.map(run, possible), strict=True))
    rows, bad = [], 0
    for setting in chosen:
        if setting not in possible:
            rows.append((setting.name, "not on this CPU", "", ""))
            continue
        answers, tests = found[setting.name]
        worst, where, apart = _compare(found[SETTINGS[0].name][0], answers)
        bad += apart or tests not in ("passed", "not run")
        rows.append((setting.name, tests, f"{worst:.1e}" if worst else "0", where + (" TOO FAR" if apart else "")))
    table = _table(rows)
    print(table)
    if given.out:
        given.out.write_text(f"# One answer on every CPU\n\n`make test-machines` on {environment()}\n\n{table}")
    print(f"{len(possible) - bad} passed, {bad} failed, {len(chosen) - len(possible)} skipped")
    return bool(bad)


def _environment(setting: Setting) -> dict[str, str]:
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return (
        os.environ
        | {"PYTHONPATH": paths, "POLI_NOTICE": "0", "POLI_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
        | setting.variables
    )


def _answers(setting: Setting, path: Path) -> dict[str, np.ndarray]:
    done = subprocess.run([sys.executable, "-m", "machines.results", str(path)], env=_environment(setting), check=False)
    if done.returncode:
        raise SystemExit(f"{setting.name}: the answers could not be had; exit code {done.returncode}")
    with np.load(path) as found:
        return dict(found)


def _run_tests(setting: Setting) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        *(str(TESTS / name) for name in FILES),
    ]
    done = subprocess.run(command, env=_environment(setting), cwd=TESTS.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
        return f"exit code {done.returncode}"
    return "passed"


def _compare(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> tuple[float, str, bool]:
    """The largest difference as a number, the entry where it is largest relative to its tolerance, and whether it is too large."""
    worst, where, share = 0.0, "", 0.0
    for name, answer in first.items():
        other = second[name]
        difference = float(np.abs(answer.astype(float) - other).max(initial=0.0)) if answer.shape == other.shape else np.inf
        tolerance = next(value for key, value in TOLERANCES.items() if name.startswith(key))
        of_tolerated = difference / tolerance if tolerance else (np.inf if difference else 0.0)
        if of_tolerated >= share and difference:
            worst, where, share = difference, f"{name} ({tolerance:g} allowed)", of_tolerated
    return worst, where, share > 1.0


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    lines = ["| setting | tests | largest difference | where |", "|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def _cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return {flag for line in lines if line.startswith("flags") for flag in line.split(":", 1)[1].split()}


if __name__ == "__main__":
    sys.exit(main())
