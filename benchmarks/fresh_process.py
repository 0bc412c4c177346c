"""Measurements that need a fresh process: peak memory of an estimate, and time of the first call."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import poli
from poli.errors import PoliError

FIRST_POINTS = 5_000  # size of the cloud for the first call
_WARM_POINTS = 512  # enough for every level of the network, with negligible memory
_STATUS = Path("/proc/self/status")

# Source code instead of a function: importing this module would import the code to be timed.
_FIRST_CALL = """
import sys, time
start = time.perf_counter()
import poli
import numpy
poli.estimate(numpy.load(sys.argv[1]), model=sys.argv[2], warn=False)
print(time.perf_counter() - start)
"""
_ROOT = Path(__file__).parents[1]
_PEAK = "import sys; from benchmarks.fresh_process import print_peak; print_peak(*sys.argv[1:])"


def peak_mb(points: np.ndarray, model: str) -> float | None:
    """Peak memory of `poli.estimate` in MB (10^6 bytes), above a process that has warmed up the model and holds the points. The
    input does not count, the returned ellipsoids do. None if the system does not report it."""
    with tempfile.TemporaryDirectory() as folder:
        return json.loads(_in_a_process(_PEAK, points, model, Path(folder)))


def first_call_seconds(points: np.ndarray, model: str) -> tuple[float, float]:
    """Seconds of `import poli` and one `poli.estimate`: in a process with an empty kernel cache, and in a second process that
    uses the cache of the first. The start of Python does not count."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (float(_in_a_process(_FIRST_CALL, points, model, Path(folder), cache=True)) for _ in range(2))
    return cold, warm


def _in_a_process(code: str, points: np.ndarray, model: str, folder: Path, cache: bool = False) -> str:
    """Run code in a fresh process and return its output. With `cache`, `folder` is the only kernel cache."""
    np.save(folder / "points.npy", points)
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))  # to find `benchmarks`
    environment = {**os.environ, "PYTHONPATH": path} | ({"NUMBA_CACHE_DIR": str(folder / "kernels")} if cache else {})
    command = [sys.executable, "-c", code, str(folder / "points.npy"), model]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise PoliError(f"a fresh process could not estimate with model {model!r}: {reason}")
    return done.stdout


def print_peak(points_file: str, model: str) -> None:
    """Print the peak memory; runs in the fresh process."""
    points = np.load(points_file)
    poli.estimate(points[:_WARM_POINTS], model=model, warn=False)  # loads model and kernels
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # free memory would hide what the estimate takes; glibc only
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak; if that fails, the result is too high
    before = resident_mb("VmRSS")
    field = poli.estimate(points, model=model, warn=False)
    after = resident_mb("VmHWM")
    assert len(field) == len(points)  # keeps the field alive
    print(json.dumps(None if before is None or after is None else after - before))


def resident_mb(row: str) -> float | None:
    """Resident memory in MB, now (VmRSS) or at the peak so far (VmHWM). Outside Linux only peaks are known; their difference is a
    lower bound of what the estimate takes."""
    if _STATUS.is_file():
        for line in _STATUS.read_text().splitlines():
            if line.startswith(f"{row}:"):
                return 1024e-6 * float(line.split()[1])
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1e-6 * peak * (1 if sys.platform == "darwin" else 1024)
