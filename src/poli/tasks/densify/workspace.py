"""The hidden folder beside an output, `.OUT.densify`, where whatever is not finished lies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poli.errors import FormatError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TEMPORARY, PARTS = "temporary", "parts"


def workspace_of(out: Path) -> Path:
    return out.with_name(f".{out.name}.densify")


@contextmanager
def workspace(out: Path) -> Iterator[Path]:
    """Give the folder, with an empty folder `temporary` in it, to one run at a time.

    It goes when the run succeeds; when one fails or is killed, finished parts stay for the next.
    """
    if not out.parent.is_dir():
        raise FormatError(f"{out}: the folder {out.parent} does not exist; create it first")
    folder = workspace_of(out)
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        if fcntl is not None:  # the system lets go of it when the process ends, however it ends
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise FormatError(f"{out}: another run is writing it; wait for it, or give another name") from None
        temporary = folder / TEMPORARY
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield folder
        except BaseException:
            shutil.rmtree(temporary if (folder / PARTS).is_dir() else folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
