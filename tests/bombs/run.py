"""Run bombs in this process, one after the other, within limits of memory and time, and print the outcomes as JSON."""

from __future__ import annotations

import faulthandler
import io
import json
import re
import resource
import sys
import time
import traceback
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import poli

from . import bag_bombs, point_bombs, table_bombs
from .point_bombs import Bomb

BOMBS: dict[str, Bomb] = {**point_bombs.BOMBS, **table_bombs.BOMBS, **bag_bombs.BOMBS}
SECONDS = 60.0
MEMORY = 2 << 30  # bytes of address space, in addition to what is loaded


class Found(NamedTuple):
    name: str
    size: int  # bytes of the file
    kind: str  # "answer", "refused" or "bad"
    why: str
    seconds: float
    memory: int  # bytes, in addition to those in use before


def defuse(name: str, folder: Path) -> Found:
    make, read = BOMBS[name]
    path = folder / name
    path.write_bytes(make())
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
    start = time.perf_counter()
    kind, why = "answer", ""
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            read(path)
    except poli.PoliError as error:
        kind, why = "refused", str(error)
    except BaseException as error:
        kind, why = "bad", "".join(traceback.format_exception(error))
    finally:
        faulthandler.cancel_dump_traceback_later()
    seconds = time.perf_counter() - start
    memory = max(0, _memory("VmHWM") - before)
    return Found(name, path.stat().st_size, kind, why, seconds, memory)


def _memory(which: str) -> int:
    found = re.search(rf"{which}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return 1024 * int(found[1])


def limit_memory() -> None:
    """Limit the memory of this process from now on."""
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + MEMORY, resource.RLIM_INFINITY))


def main() -> None:
    results = []
    limit_memory()
    for name in sys.argv[1:] or BOMBS:
        with TemporaryDirectory() as folder:
            results.append(defuse(name, Path(folder))._asdict())
    print(json.dumps(results))


if __name__ == "__main__":
    main()
