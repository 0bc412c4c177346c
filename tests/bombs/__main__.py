"""Each bomb in a process of its own: verdict, time, and the most memory that it took."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from .run import BOMBS

_ROOT = Path(__file__).parents[2]


def main() -> int:
    print(f"| file | bytes | verdict | s | MB |\n|{'---|' * 5}")
    bad, most, longest = 0, 0.0, 0.0
    for name in sys.argv[1:] or BOMBS:
        ran = subprocess.run([sys.executable, "-m", "tests.bombs.run", name], cwd=_ROOT, capture_output=True, text=True)
        if ran.returncode:
            bad += 1
            print(f"| {name} | | **died, {ran.returncode}** {ran.stderr.strip()[-300:]!r} | | |", flush=True)
            continue
        (found,) = json.loads(ran.stdout.splitlines()[-1])
        bad += found["kind"] == "bad"
        most, longest = max(most, found["memory"]), max(longest, found["seconds"])
        kind = f"**bad** {found['why'].strip()[-300:]!r}" if found["kind"] == "bad" else found["kind"]
        print(f"| {name} | {found['bytes']:,} | {kind} | {found['seconds']:.2f} | {found['memory'] / 1e6:.0f} |", flush=True)
    print(f"\n{len(sys.argv[1:] or BOMBS)} files, {bad} bad; at most {most / 1e6:.0f} MB and {longest:.1f} s")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
