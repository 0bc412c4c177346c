"""The hidden folder beside an output, `.OUT.densify`, where whatever is not finished lies.

Its name is no secret, so it may be anybody's: `private_folder` sees to it that it is this user's, and nothing is used or removed in
it that is a link or that no run puts there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from poli.errors import FormatError
from poli.files.failures import writing
from poli.files.private import LOCK_FILE, private_folder
from poli.files.temporary import discard_folder, remove_stale

TEMPORARY, PARTS, RUN = "temporary", "parts", "run.json"
_FINISHED = "finished"  # a file: all that is left to do is to remove the folder
_OLD_LOCK = "lock"  # a file of earlier releases


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
    with writing(out, folder), private_folder(folder, f"{out}: another run is writing it; wait for it, or give another name"):
        remove_stale(out.parent)
        _check_contents(folder)
        (folder / _FINISHED).unlink(missing_ok=True)
        temporary = folder / TEMPORARY
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield folder
        except BaseException:
            if (folder / PARTS).is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                discard_folder(folder)
            raise
        discard_folder(folder)


def mark_finished(folder: Path) -> None:
    """Say that nothing in a workspace is needed any more, in case that the run is killed before it removes it."""
    (folder / _FINISHED).touch()


def remove_finished(out: Path) -> None:
    """Remove the workspace of a run that was killed after `out` had got its name. Those of others stay."""
    remove_stale(out.parent)
    folder = workspace_of(out)
    if not (folder / _FINISHED).is_file():
        return
    with suppress(FormatError, OSError), private_folder(folder, "it is used", make=False):
        _check_contents(folder)
        if (folder / _FINISHED).is_file():
            discard_folder(folder)


def _check_contents(folder: Path) -> None:
    (folder / _OLD_LOCK).unlink(missing_ok=True)  # if it is a link, then the link alone
    remove_stale(folder)
    for entry in folder.iterdir():
        expected = entry.is_dir() if entry.name in (TEMPORARY, PARTS) else entry.is_file()
        if entry.is_symlink() or not expected or entry.name not in (TEMPORARY, PARTS, RUN, _FINISHED, LOCK_FILE):
            raise FormatError(f"{entry}: was not put there by poli; remove {folder}, or choose another name for the output")
