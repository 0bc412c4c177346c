"""A real ROS 1 master on a free port, and processes that talk to it. Skips the test if ROS 1 is not installed (see .ci/run)."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import xmlrpc.client
from contextlib import suppress
from functools import partial

import pytest

PATIENCE = 60.0  # seconds, on a machine with much else to do
MISSING = [name for name in ("rosmaster", "rosbag") if shutil.which(name) is None]


class Master:
    """`start` processes, which `__exit__` ends. Everything ROS writes is in `folder`."""

    def __init__(self, folder):
        if MISSING:
            pytest.skip(f"{' and '.join(MISSING)} not installed")
        self.folder, self.processes = folder, []
        for _ in range(5):  # another process may take the port in between
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            self.uri = f"http://127.0.0.1:{port}/"
            self.environment = os.environ | {
                "ROS_MASTER_URI": self.uri, "ROS_IP": "127.0.0.1", "ROS_HOME": str(folder), "ROS_VERSION": "1",
                "PYTHONUNBUFFERED": "1", "POLI_NUM_THREADS": "1",
            }  # fmt: skip
            self.process = self.start("master", "rosmaster", "--core", "-p", str(port))
            if self.wait(self._answers, needed=False):
                return
        pytest.fail(f"no master: {self.said('master')}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            with suppress(ProcessLookupError):  # `rosbag` is a script that starts another program
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def start(self, name, *command):
        """Start a process whose output goes to a file; `said` reads it."""
        with (self.folder / f"{name}.txt").open("w") as out:
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
            # `rosbag record` fails on SIGINT if it was ignored before, as in background jobs of shells.
            heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
            process = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, start_new_session=True, preexec_fn=heed, **streams
            )
        self.processes.append(process)
        return process

    def poli(self, name, *words):
        return self.start(name, sys.executable, "-m", "poli", "node", *words)

    def said(self, name):
        return (self.folder / f"{name}.txt").read_text()

    def end(self, process):
        """Press Ctrl-C and return the exit code."""
        os.killpg(process.pid, signal.SIGINT)
        return process.wait(PATIENCE)

    def call(self, method, *arguments):
        code, text, value = getattr(xmlrpc.client.ServerProxy(self.uri), method)("/test", *arguments)
        assert code == 1, text
        return value

    def subscribers(self, topic):
        return set(dict(self.call("getSystemState")[1]).get(topic, []))

    def wait(self, condition, needed=True):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if condition():
                return True
            if any(process.poll() for process in self.processes):
                break
            time.sleep(0.05)
        assert not needed, [(path.name, path.read_text()) for path in self.folder.glob("*.txt")]
        return False

    def _answers(self):
        with suppress(OSError):
            return self.call("getPid") == self.process.pid
        return False
