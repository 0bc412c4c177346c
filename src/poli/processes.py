"""Worker processes that exit when their parent process exits, even if it is killed."""

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
    """Initialize a pool process: use one thread, leave Ctrl-C to the parent, and exit when the parent does."""
    use_one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.formatwarning = _format_warning  # warnings contain file names and go directly to the terminal
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: Any) -> None:
    wait([sentinel])
    os._exit(1)


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    return f"poli: warning: {printable(' '.join(str(message).split()))}\n"
