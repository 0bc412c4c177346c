"""Decompress the points of a LAZ file in a child process.

lazrs trusts its input: on damaged files it panics, aborts on huge allocations, or never returns. The child process shields the
caller of `poli.read` from that. It imports only lazrs and starts in about 50 ms.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from poli.errors import FormatError, MissingExtra

_CHILD = Path(__file__).with_name("laz_child.py")
_PATIENCE, _SLOWEST = 10.0, 2e7  # s, bytes/s: timeout without output is _PATIENCE + size / _SLOWEST; chunks arrive whole
_STEP = 1 << 20  # bytes


def read_laz_points(path: Path, how: bytes, start: int, count: int, width: int) -> np.ndarray:  # -> (count * width,) uint8
    """Decompress `count` points. `how` is the LASzip record, `start` the file offset of the points, `width` the bytes per point."""
    try:
        import lazrs  # noqa: F401
    except ImportError:
        raise MissingExtra("reading .laz", "las") from None
    command = [sys.executable, "-P", str(_CHILD), bytes(how).hex(), str(start), str(count), str(width)]
    data = np.empty(count * width, np.uint8)
    view = memoryview(data)  # type: ignore[arg-type]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**os.environ, "RUST_BACKTRACE": "0"}}
    with path.open("rb") as file, subprocess.Popen(command, stdin=file, **options) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        watch = _Watch(child, _PATIENCE + len(data) / _SLOWEST)
        at = 0
        try:
            while at < len(data):
                read = os.readv(child.stdout.fileno(), [view[at : at + _STEP]])
                if not read:
                    break
                at += read
                watch.saw_life()
            said = child.stderr.read(10_000).decode("utf-8", "replace").strip()
            child.wait()
        finally:
            watch.stop()
            child.kill()
    if at < len(data) or child.returncode != 0:
        lines = [line for line in said.splitlines() if line.strip() and not line.startswith("note:")]
        why = lines[-1] if lines else f"the decoder exited with {child.returncode}"
        why = "timed out" if watch.gave_up else why
        raise FormatError(f"{path}: the compressed points cannot be read ({why[:200]}); the file is truncated or damaged")
    return data


class _Watch:
    """Kills a process that has produced no output for `patience` seconds."""

    def __init__(self, child: subprocess.Popen, patience: float) -> None:
        self._child, self._patience, self.gave_up = child, patience, False
        self._life, self._stopped = threading.Event(), False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def saw_life(self) -> None:
        self._life.set()

    def stop(self) -> None:
        self._stopped = True
        self._life.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            if not self._life.wait(self._patience):
                self.gave_up = True
                self._child.kill()
                return
            self._life.clear()
