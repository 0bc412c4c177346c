"""The points of a LAZ file, decompressed in a process of its own.

lazrs trusts what it reads: on damaged files it panics, asks for memory that nobody has and is aborted, or never comes back. None of
it may happen to whoever calls `poli.read`. The process imports nothing but lazrs and is there within some 50 ms.
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
_PATIENCE, _SLOWEST = 10.0, 2e7  # seconds without a single byte, and bytes a second: a chunk comes only when all of it is done
_STEP = 1 << 20  # bytes


def read_laz_points(path: Path, how: bytes, start: int, count: int, width: int) -> np.ndarray:  # -> (count * width,) uint8
    """`how` is the record that says how they are compressed, `start` where they begin in the file, `width` the bytes of a point."""
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
        why = lines[-1] if lines else f"the decoder ended with {child.returncode}"
        why = "it took too long" if watch.gave_up else why
        raise FormatError(f"{path}: the compressed points cannot be read ({why[:200]}); the file is cut off or damaged")
    return data


class _Watch:
    """Ends a process that gives no sign of life."""

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
