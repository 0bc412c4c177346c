"""Workers of `poli densify`."""

import os
import subprocess
import sys
import time


def test_workers_exit_with_their_parent_process():
    code = (
        "import os, signal\nfrom poli.densification.resume import engine\n"
        "if __name__ == '__main__':\n"
        "    with engine(2) as pool:\n"
        "        print(pool.submit(int, 3).result(), *pool.submit.__self__._processes, flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    assert said[0] == "3"
    for _ in range(100):
        alive = [pid for pid in map(int, said[1:]) if _runs(pid)]
        if not alive:
            return
        time.sleep(0.1)
    raise AssertionError(f"{alive} still run")


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
