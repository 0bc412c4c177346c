"""`python -m poli.building`: compile the kernels for the CPU at hand, into this installation. For whoever has changed a kernel, or
has another numba than the one that poli was installed with."""

import argparse
import sys
from pathlib import Path

from poli.building.compiling import compile_all
from poli.errors import PoliError
from poli.native.machine import HOST, LEVELS, levels_of_a_wheel
from poli.native.package import COMPILED


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m poli.building", description=__doc__)
    parser.add_argument("--levels", default=HOST, help=f"some of {', '.join(LEVELS)}, or `wheel`; with commas between (host)")
    parser.add_argument("--out", type=Path, default=COMPILED, help="the folder to write to (this installation)")
    chosen = parser.parse_args()
    levels = levels_of_a_wheel() if chosen.levels == "wheel" else chosen.levels.split(",")
    unknown = [level for level in levels if level not in LEVELS]
    if unknown:
        parser.error(f"no level is called {unknown[0]!r}; there are {', '.join(LEVELS)}")
    try:
        compile_all(levels, chosen.out, lambda line: print(line, flush=True))
    except (PoliError, OSError) as error:
        sys.exit(f"poli: {error}")


if __name__ == "__main__":
    main()
