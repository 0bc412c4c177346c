"""`make test-numba`: run the tests of compiled code with the oldest and the newest numba that `pyproject.toml` allows.

They need the private parts of numba that `numba_private.py` names, so run this with a new numba release before allowing its
version there."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ["tests/test_native.py", "tests/test_native_cache.py", "tests/test_native_versions.py"]
NEEDED = ["safetensors", "typer", "rich", "pytest", "hypothesis"]


def main() -> None:
    oldest = re.search(r'"numba>=([\d.]+)",\n', (ROOT / "pyproject.toml").read_text())
    assert oldest is not None
    failed = []
    for wanted in (f"numba=={oldest[1]}.*", "numba"):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            python = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
            # Without our constraints, which pin one version.
            free = {name: value for name, value in os.environ.items() if name not in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}
            subprocess.run([python, "-m", "pip", "install", "--quiet", wanted, *NEEDED], check=True, env=free)
            print(subprocess.run([python, "-m", "pip", "list"], check=True, capture_output=True, text=True).stdout, flush=True)
            environment = free | {"PYTHONPATH": str(ROOT / "src")}
            done = subprocess.run(
                [python, "-m", "pytest", "-p", "no:cacheprovider", *TESTS], cwd=ROOT, env=environment, check=False
            )
            if done.returncode:
                failed.append(wanted)
    sys.exit(f"failed with {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
