"""Hostile files: small files that promise, inflate to or request gigabytes, or would take forever.

    python -m tests.bombs

prints the outcome of each, with its time and memory; `BOMB_BYTES=4000000000` makes larger ones.
`point_bombs`, `bag_bombs` and `table_bombs` make them.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
