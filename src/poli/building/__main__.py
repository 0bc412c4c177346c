"""`python -m poli.building`: compile the kernels for this CPU, into this installation. Needed after changing a kernel or installing
another version of numba."""

import argparse
import sys
from pathlib import Path

from poli.building.compiling import compile_all
from poli.errors import PoliError
from poli.native.machine import HOST, LEVELS, levels_of_a_wheel
from poli.native.package import COMPILED


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m poli.building", description=__doc__)
    parser.add_argument("--levels", default=HOST, help=f"comma-separated: {', '.join(LEVELS)}, or `wheel` (default: host)")
    parser.add_argument("--out", type=Path, default=COMPILED, help="output folder (default: this installation)")
    chosen = parser.parse_args()
    levels = levels_of_a_wheel() if chosen.levels == "wheel" else chosen.levels.split(",")
    unknown = [level for level in levels if level not in LEVELS]
    if unknown:
        parser.error(f"unknown level {unknown[0]!r}; expected some of {', '.join(LEVELS)}, or wheel")
    try:
        compile_all(levels, chosen.out, lambda line: print(line, flush=True))
    except (PoliError, OSError) as error:
        sys.exit(f"poli: {error}")


if __name__ == "__main__":
    main()
