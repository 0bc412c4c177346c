"""A headless Chromium, driven by the DevTools protocol over two pipes without other packages."""

import base64
import fcntl
import io
import json
import os
import select
import shutil
import signal
import tempfile
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--mute-audio", "--force-color-profile=srgb",
)  # fmt: skip
PATIENCE = 300.0  # seconds to wait for an answer: a browser that hangs fails one test instead of blocking all


class Tab:
    """One page. `events` holds all events that the browser reported about it, in order."""

    def __init__(self, width=1200, height=700, flags=()):
        self._folder = tempfile.mkdtemp(prefix="poli-chromium-")
        (to_read, self._write), (self._read, to_write) = os.pipe(), os.pipe()
        # Above 9, so that neither occupies 3 and 4, which the browser uses.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_read, to_write)]
        command = [PROGRAM, *FLAGS, *flags, f"--user-data-dir={self._folder}", f"--window-size={width},{height}", "about:blank"]
        actions = [(os.POSIX_SPAWN_DUP2, ends[0], 3), (os.POSIX_SPAWN_DUP2, ends[1], 4)]
        actions += [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
        self._process = os.posix_spawn(PROGRAM, command, os.environ, file_actions=actions, setpgroup=0)
        for end in (to_read, to_write, *ends):
            os.close(end)
        self._buffer, self._number, self._session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(OSError, AssertionError):
            self._session = None
            self.call("Browser.close")
        with suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        for end in (self._write, self._read):
            os.close(end)
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        while b"\0" not in self._buffer:
            assert select.select([self._read], [], [], PATIENCE)[0], f"no answer from {PROGRAM} for {PATIENCE} seconds"
            part = os.read(self._read, 1 << 20)
            assert part, f"{PROGRAM} ended"
            self._buffer += part
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, path):
        begin = len(self.events)
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events[begin:]):
            self.events.append(self._next())

    def run(self, expression):
        """Return the value of a JavaScript expression, awaiting promises."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def settle(self):
        """Wait until the page has finished drawing."""
        self.run("new Promise(done => { const look = () => poliView.settled ? done() : requestAnimationFrame(look); look(); })")

    def screenshot(self):  # (H, W, 3) uint8
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def reported(self, *methods):
        return [event["params"] for event in self.events if event.get("method") in methods]


# --- Fixtures: pages in a browser.


@pytest.fixture(scope="module")
def tab():
    with Tab(800, 600) as tab:
        yield tab


@pytest.fixture
def opened(tab, tmp_path):
    """Write a page, open it, and wait until it is drawn. In the end, no script may have failed."""
    from poli.viewer import Camera, write_page

    camera = Camera(eye=(0.0, -10.0, 0.0), target=(0.0, 0.0, 0.0), width=100, height=100, field_of_view=60.0)

    def open_page(panels, title="a page", **options):
        write_page(tmp_path / "page.html", title, panels, **{"camera": camera, **options})
        tab.events.clear()
        tab.open(tmp_path / "page.html")
        tab.run("poliView.show({samples: 4})")  # smooth enough
        tab.settle()
        return tab

    yield open_page
    spoken = [p for p in tab.reported("Runtime.consoleAPICalled") if p["type"] in ("error", "warning", "assert")]
    logged = [p["entry"] for p in tab.reported("Log.entryAdded") if p["entry"]["level"] == "error"]
    assert not tab.reported("Runtime.exceptionThrown") + spoken + logged
