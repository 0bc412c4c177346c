"""Worker processes that end with the process that started them, however that ends."""

import os
import signal
import threading
import warnings
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import Any

from poli.printable import printable
from poli.threads import use_one_thread


def start_worker() -> None:
    """For the start of a process in a pool: one thread; Ctrl-C is for the process that hands out the work; none stays behind."""
    use_one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.formatwarning = _format_warning  # they name files, and go to the terminal from here
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: Any) -> None:
    wait([sentinel])
    os._exit(1)


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    return f"poli: warning: {printable(' '.join(str(message).split()))}\n"
