"""Run a loop in parallel on all cores.

The kernels of this library release the GIL, so plain threads run them in parallel. Unlike with some of numba's parallel back ends,
they can be called from several threads at once and after a fork.
"""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import parent_process
from multiprocessing.connection import wait
from types import SimpleNamespace
from typing import Any

import numpy as np

from poli.errors import InputError, printable

_ENDED = np.zeros(4, np.int64)  # the turns of a stage that has ended
_FEWEST_TURNS = 2  # per thread: for less, waking a thread does not pay
_CHUNKS_PER_THREAD = 8  # small ones: other processes, or the host of a virtual machine, slow one thread down at any moment
# More threads than this cost memory (each has buffers) and bring no speed.
_PER_CORE, _ALWAYS_ALLOWED = 4, 16

_pool: tuple[int, ThreadPoolExecutor] | None = None  # number of threads, pool


def thread_count() -> int:
    """Return the number of threads: `POLI_NUM_THREADS`, at most four per core (or 16), or else all cores of this process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("POLI_NUM_THREADS", "")
    if not wanted:
        return cores
    if not wanted.isdecimal() or len(wanted) > 10 or int(wanted) < 1:
        raise InputError(f"POLI_NUM_THREADS is {wanted[:40]!r}; give a whole number of at least 1, or unset it")
    return min(int(wanted), max(_PER_CORE * cores, _ALWAYS_ALLOWED))


def use_one_thread() -> None:
    """Limit this process to one thread. For pools with one process per core."""
    os.environ["POLI_NUM_THREADS"] = "1"


def run_chunks(work: Callable[[int, int], object], total: int, smallest: int = 256) -> None:
    """Call `work(begin, end)` on ranges that cover `range(total)`, in parallel if they are large enough."""
    most = thread_count()
    threads = min(most, total // smallest)
    if threads <= 1:
        work(0, total)
        return
    # A whole number of chunks per thread, more than one because neighborhoods differ in cost.
    chunks = threads * min(_CHUNKS_PER_THREAD, max(1, total // (threads * smallest)))
    edges = [total * i // chunks for i in range(chunks + 1)]
    waiting = iter(list(pairwise(edges)))  # next() on a list iterator is atomic: an idle thread takes the next chunk

    def help_out() -> None:
        for begin, end in waiting:
            work(begin, end)

    _with_help(help_out, threads)


Stage = tuple[Callable[[np.ndarray], object], int]  # a kernel that takes turns (`turns.take`), and the number of turns


def run_turns(*stages: Stage, ended: Callable[[int], object] = lambda stage: None, dependent: bool = False) -> None:
    """Call `work(turns)` in every thread, for each (work, total) in order.

    The threads share `turns`, from which a kernel takes the numbers below `total` one by one (`turns.take`). So a kernel is
    called once per thread, however uneven the work is, and allocates its memory once. A thread starts the next stage while others
    still finish the last or, if stages are `dependent`, waits for them in a loop: to wake a sleeping thread for every stage would
    take longer than many a stage. `ended` is called with the number of each stage when it ends in the calling thread."""
    from poli.turns import enter, leave  # and with it numba, which commands that convert files do without

    threads = min(thread_count(), max(total for _, total in stages) // _FEWEST_TURNS)
    shared = [(work, np.array([0, total, 0, 0])) for work, total in stages]
    caller = threading.get_ident()

    def help_out() -> None:
        try:
            for number, (work, turns) in enumerate(shared):
                before = shared[number - 1][1] if number and dependent else _ENDED
                while not enter(before, turns):
                    time.sleep(0.0)  # more threads than cores: let the others run
                try:
                    work(turns)
                finally:
                    leave(turns)
                if threading.get_ident() == caller:
                    ended(number)
        except BaseException:
            for _, turns in shared:
                turns[0] = turns[1]  # nothing is left to wait for
            raise

    _with_help(help_out, max(threads, 1))


def _with_help(work: Callable[[], None], threads: int) -> None:
    """Run `work` in this many threads. The caller is one of them: in small loops, waking a thread takes longer than the work."""
    helpers = [_executor(thread_count()).submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            if not helper.cancel():  # a helper that a busy pool has not started yet has nothing left to do
                helper.result()


def in_background(work: Callable[[], None]) -> Future[None]:
    """Start `work` in a thread of the pool, or, if there is only one thread, do it now. Loops that run meanwhile have a thread
    less."""
    most = thread_count()
    if most > 1:
        return _executor(most).submit(work)
    work()
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _executor(threads: int) -> ThreadPoolExecutor:
    global _pool
    pool = _pool
    if pool is None or pool[0] != threads:
        pool = _pool = (threads, ThreadPoolExecutor(threads - 1, thread_name_prefix="poli"))
    return pool[1]


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # the pool's threads do not exist in a forked child
    os.register_at_fork(after_in_child=_forget_pool)


# --- Worker processes that exit when their parent process exits, even if it is killed.


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


# --- Signals


@contextmanager
def stop_requests(notice: str = "") -> Iterator[SimpleNamespace]:
    """Handle SIGINT and SIGTERM between scans, so that no scan is half written; a second signal stops at once.

    Yields an object whose `signal` is the one that was received, or None."""
    stop = SimpleNamespace(signal=None)

    def request(number: int, _: object) -> None:
        if stop.signal:
            raise KeyboardInterrupt
        stop.signal = number
        os.write(2, notice.encode())  # async-signal-safe

    try:
        before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # only the main thread can handle signals
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
