"""Run `poli` as a user does."""

import subprocess
import sys


def run(*arguments: str, fails: bool = False) -> str:
    """Run the executable next to this interpreter; returns its output."""
    done = subprocess.run([sys.executable, "-c", "from poli.cli import main; main()", *arguments], capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr
