"""Run one case in this process and judge it."""

from __future__ import annotations

import faulthandler
import io
import shutil
import sys
import time
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from poli.errors import PoliError

from .cases import Case
from .target import write_tree

SECONDS = 30.0  # limit per case; reading a .laz file gives up after 10 s by itself


class Verdict(NamedTuple):
    kind: str  # "answer", "refused" or "bad"
    why: str = ""
    seconds: float = 0.0


def try_case(case: Case, scratch: Path) -> Verdict:
    """Run a case in `scratch`, which is emptied first. A case that hangs ends the process."""
    shutil.rmtree(scratch, ignore_errors=True)
    folder = scratch / "case"
    folder.mkdir(parents=True)
    try:
        write_tree(case.tree, folder)
    except (OSError, ValueError):  # names that are impossible in a file system
        return Verdict("refused", "no such file can be")
    start = time.perf_counter()
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
    try:
        verdict = _judge(case, folder)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return verdict._replace(seconds=time.perf_counter() - start)


def _judge(case: Case, folder: Path) -> Verdict:
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            case.target.read(folder)
    except PoliError as error:
        name = next(iter(case.tree), "")
        if case.target.named and name not in str(error):
            return Verdict("bad", f"the error does not name the file: {error}")
        return Verdict("refused", str(error))
    except BaseException as error:
        return Verdict("bad", "".join(traceback.format_exception(error)))
    return Verdict("answer")
